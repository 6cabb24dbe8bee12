#include "skerry/apply/undo_log.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>

#include "skerry/apply/undo_entry.h"

namespace skerry {
namespace {

// Versions found from one on, each with the step that it was found by and the version before it.
struct Found {
  VersionMark mark;
  size_t before = 0;  // index of the one that it was found from
  const UndoStep* by = nullptr;
};

// Breadth first, newer steps first, until `stop` says so of the last one found.
std::vector<Found> Walk(const std::vector<UndoStep>& steps, const VersionMark& present, bool both_ways,
                        const std::function<bool(const VersionMark&)>& stop) {
  std::vector<Found> found = {{.mark = present}};
  const auto known = [&](const VersionMark& mark) {
    return std::any_of(found.begin(), found.end(), [&](const Found& other) { return other.mark == mark; });
  };
  for (size_t at = 0; at < found.size(); ++at) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      const VersionMark here = found[at].mark;
      const VersionMark* next = step->to == here ? &step->from : nullptr;
      if (next == nullptr && both_ways && step->from == here) next = &step->to;
      if (next == nullptr || known(*next)) continue;
      found.push_back({.mark = *next, .before = at, .by = &*step});
      if (stop(*next)) return found;
    }
  }
  return found;
}

// A run that was made anew under its old name may have had two versions of one number.
bool IsAmbiguous(const std::vector<UndoStep>& steps, const VersionLabel& label) {
  const VersionMark* first = nullptr;
  for (const UndoStep& step : steps) {
    for (const VersionMark* mark : {&step.from, &step.to}) {
      if (mark->label != label) continue;
      if (first != nullptr && *first != *mark) return true;
      first = mark;
    }
  }
  return false;
}

}  // namespace

Path UndoDirectory(const Path& state_directory) { return state_directory / "undo"; }

Result<UndoLog> UndoLog::Read(const Path& state_directory) {
  UndoLog log;
  std::error_code error;
  const Path directory = UndoDirectory(state_directory);
  if (!std::filesystem::is_directory(directory, error)) return log;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (auto step = ReadUndoStep(entry.path())) log.steps_.push_back(*std::move(step));
  }
  if (error) return ErrnoFailure(error.value(), "list", directory);
  std::sort(log.steps_.begin(), log.steps_.end(),
            [](const UndoStep& a, const UndoStep& b) { return a.number < b.number; });
  return log;
}

uint64_t UndoLog::bytes() const {
  uint64_t sum = 0;
  for (const UndoStep& step : steps_) sum += step.bytes;
  return sum;
}

std::vector<UndoStep> UndoLog::Search(const VersionMark& present, const VersionLabel& target, bool both_ways) const {
  if (target == present.label || !target.version || IsAmbiguous(steps_, target)) return {};
  const std::vector<Found> found =
      Walk(steps_, present, both_ways, [&](const VersionMark& mark) { return mark.label == target; });
  if (found.back().mark.label != target) return {};
  std::vector<UndoStep> way;
  for (size_t at = found.size() - 1; at != 0; at = found[at].before) way.push_back(*found[at].by);
  std::reverse(way.begin(), way.end());
  return way;
}

std::vector<UndoStep> UndoLog::WayBack(const VersionMark& present, const VersionLabel& target) const {
  return Search(present, target, /*both_ways=*/false);
}

std::vector<UndoStep> UndoLog::Between(const VersionMark& present, const VersionLabel& other) const {
  return Search(present, other, /*both_ways=*/true);
}

std::vector<VersionMark> UndoLog::Reachable(const VersionMark& present) const {
  std::vector<VersionMark> marks;
  for (const Found& found : Walk(steps_, present, /*both_ways=*/false, [](const VersionMark&) { return false; })) {
    if (found.by != nullptr) marks.push_back(found.mark);
  }
  return marks;
}

Status UndoLog::Remove(const UndoStep& step) {
  std::error_code error;
  std::filesystem::remove(step.file, error);
  if (error) return ErrnoFailure(error.value(), "remove", step.file);
  std::erase_if(steps_, [number = step.number](const UndoStep& other) { return other.number == number; });
  return {};
}

Status UndoLog::Prune(const VersionMark& present, const UndoPolicy& policy) {
  const std::vector<Found> connected =
      Walk(steps_, present, /*both_ways=*/true, [](const VersionMark&) { return false; });
  const auto leads_nowhere = [&](const UndoStep& step) {
    return std::none_of(connected.begin(), connected.end(),
                        [&](const Found& found) { return found.mark == step.from; });
  };
  const auto said_again = [&](const UndoStep& step) {
    return std::any_of(steps_.begin(), steps_.end(), [&](const UndoStep& other) {
      return other.number > step.number && other.from == step.from && other.to == step.to;
    });
  };
  std::vector<UndoStep> useless;
  for (const UndoStep& step : steps_) {
    if (leads_nowhere(step) || said_again(step)) useless.push_back(step);
  }
  for (const UndoStep& step : useless) SKERRY_TRY(Remove(step));
  while (steps_.size() > 1 &&
         ((policy.versions != 0 && steps_.size() > policy.versions) || (policy.bytes != 0 && bytes() > policy.bytes))) {
    const UndoStep oldest = steps_.front();
    SKERRY_TRY(Remove(oldest));
  }
  return {};
}

}  // namespace skerry
