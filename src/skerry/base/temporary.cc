#include "skerry/base/temporary.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

namespace skerry {
namespace {

constexpr std::string_view kMark = ".tmp-";

// The process that made it, or 0 when `name` is no temporary name (of `of`).
pid_t OwnerOf(std::string_view name, std::string_view of) {
  if (!name.starts_with('.')) return 0;
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || (!of.empty() && name.substr(1, mark - 1) != of)) return 0;
  const std::string_view digits = name.substr(mark + kMark.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return error == std::errc() && end == digits.data() + digits.size() && pid > 0 ? pid : 0;
}

}  // namespace

Path TemporaryBeside(const Path& path) {
  return path.parent_path() / fmt::format(".{}{}{}", path.filename().string(), kMark, ::getpid());
}

void SweepTemporaries(const Path& directory, const Path& of) {
  std::error_code error;
  std::vector<Path> stale;
  for (auto entry = std::filesystem::directory_iterator(directory.empty() ? Path(".") : directory, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const pid_t owner = OwnerOf(entry->path().filename().string(), of.filename().string());
    if (owner != 0 && owner != ::getpid() && ::kill(owner, 0) != 0 && errno == ESRCH) stale.push_back(entry->path());
  }
  for (const Path& path : stale) std::filesystem::remove_all(path, error);
}

void SweepTemporariesBelow(const Path& directory) {
  std::error_code error;
  std::vector<Path> folders = {directory};
  for (auto entry = std::filesystem::recursive_directory_iterator(directory, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(error)) folders.push_back(entry->path());
  }
  for (const Path& folder : folders) SweepTemporaries(folder);
}

}  // namespace skerry
