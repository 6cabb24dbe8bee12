#include "views.h"

#include <utility>

#include "skerry/apply/settled_checkpoint.h"

namespace skerry {

Result<RunId> RunOf(const std::string& run, const std::string& view) {
  SKERRY_ASSIGN(RunId id, RunId::Parse(run));
  if (view.empty() || id.view() == view) return id;
  if (id.IsView()) return Fail(Code::kInvalid, "--run {} and --view {} name two views", run, view);
  return id.View(view);
}

Result<GivenViews> GivenViews::Open(const std::vector<std::string>& given) {
  GivenViews views;
  for (const std::string& one : given) {
    const size_t equals = one.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == one.size()) {
      return Fail(Code::kInvalid, "--view {} is not NAME=CKPT", one);
    }
    const std::string name = one.substr(0, equals);
    SKERRY_ASSIGN(Checkpoint checkpoint, OpenSettledCheckpoint(one.substr(equals + 1)));
    if (!views.opened_.emplace(name, std::move(checkpoint)).second) {
      return Fail(Code::kInvalid, "--view {} is given twice", name);
    }
  }
  return views;
}

std::map<std::string, const Checkpoint*, std::less<>> GivenViews::checkpoints() const {
  std::map<std::string, const Checkpoint*, std::less<>> all;
  for (const auto& [name, checkpoint] : opened_) all.emplace(name, &checkpoint);
  return all;
}

}  // namespace skerry
