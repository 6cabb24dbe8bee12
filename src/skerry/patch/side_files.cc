#include "skerry/patch/side_files.h"

namespace skerry {

Result<std::vector<SideFileChange>> CompareSideFiles(const Checkpoint& base, const Checkpoint& target) {
  const auto &before = base.side_files(), &after = target.side_files();
  std::vector<SideFileChange> changes;
  uint64_t total = 0;
  for (size_t i = 0, j = 0; i < before.size() || j < after.size();) {
    if (j == after.size() || (i < before.size() && before[i].path < after[j].path)) {
      changes.push_back({.path = before[i++].path, .content = std::nullopt});
      continue;
    }
    const bool both = i < before.size() && before[i].path == after[j].path;
    SKERRY_ASSIGN(Bytes content, target.ReadSideFile(after[j]));
    bool equal = false;
    if (both && before[i].size == content.size()) {
      SKERRY_ASSIGN(const Bytes old_content, base.ReadSideFile(before[i]));
      equal = old_content == content;
    }
    if (!equal) {
      total += content.size();
      if (total > kMaxSideFilesSectionBytes / 2) {
        return Fail(Code::kInvalid, "side files that changed have over {} bytes (at '{}'): too much for one patch",
                    kMaxSideFilesSectionBytes / 2, after[j].path);
      }
      changes.push_back({.path = after[j].path, .content = std::move(content)});
    }
    i += both;
    ++j;
  }
  return changes;
}

}  // namespace skerry
