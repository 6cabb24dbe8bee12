// The views of a run on the command line: which one is meant, and checkpoints for several at once.
#ifndef SKERRY_APPS_SKERRY_VIEWS_H_
#define SKERRY_APPS_SKERRY_VIEWS_H_

#include <map>
#include <string>
#include <vector>

#include "skerry/board/names.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

inline constexpr const char* kViewHelp = "A further view of the run, in place of its own (the same as --run RUN/VIEW)";
inline constexpr const char* kViewsHelp =
    "NAME=CKPT: the same weights in a further view of the run, fp8-block=/ckpt/fp8 perhaps; once for each view";

// What --run and --view say together. kInvalid when --run names another view itself.
Result<RunId> RunOf(const std::string& run, const std::string& view);

// What --view NAME=CKPT says, on commands that take all views of a run.
class GivenViews {
 public:
  // kInvalid names what is not NAME=CKPT, or is there twice.
  static Result<GivenViews> Open(const std::vector<std::string>& given);

  // By the name of the view; valid as long as this is.
  std::map<std::string, const Checkpoint*, std::less<>> checkpoints() const;

 private:
  std::map<std::string, Checkpoint> opened_;
};

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_VIEWS_H_
