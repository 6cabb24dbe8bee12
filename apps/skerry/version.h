#ifndef SKERRY_APPS_SKERRY_VERSION_H_
#define SKERRY_APPS_SKERRY_VERSION_H_

namespace skerry {

inline constexpr const char* kProgramVersion = "0.1.0";

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_VERSION_H_
