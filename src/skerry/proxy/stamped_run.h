// The run as stamps tell it.
#ifndef SKERRY_PROXY_STAMPED_RUN_H_
#define SKERRY_PROXY_STAMPED_RUN_H_

#include <string_view>

namespace skerry {

// Without the view that this island serves: a version is one number in all views, and whoever asks for it does not
// care.
inline std::string_view StampedRun(std::string_view run) { return run.substr(0, run.find('/')); }

}  // namespace skerry

#endif  // SKERRY_PROXY_STAMPED_RUN_H_
