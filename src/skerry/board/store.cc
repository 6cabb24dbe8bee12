#include "skerry/board/store.h"

#include <algorithm>

namespace skerry {

Result<std::vector<std::string>> Store::ListNames(std::string_view prefix) {
  SKERRY_ASSIGN(const std::vector<std::string> keys, List(prefix));
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    const std::string_view rest = std::string_view(key).substr(prefix.size());
    const std::string_view name = rest.substr(0, rest.find('/'));
    // Keys of one folder lie together, except that "a-b" sorts between "a" and "a/b".
    if (names.empty() || names.back() != name) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<uint64_t> Store::SweepLeftovers(std::chrono::seconds) { return 0; }

std::optional<Path> Store::LocalPath(std::string_view) const { return std::nullopt; }

Status Store::ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                               const std::function<void(uint64_t)>& told) {
  SKERRY_TRY(ReadRange(key, offset, out));
  told(out.size());
  return {};
}

Result<std::optional<Object>> Store::WaitForChange(std::string_view, const Generation&, uint64_t,
                                                   std::chrono::milliseconds) {
  return Fail(Code::kUnsupported, "{} does not tell when an object changes", Describe());
}

}  // namespace skerry
