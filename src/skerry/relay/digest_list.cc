#include "skerry/relay/digest_list.h"

#include <utility>

#include "skerry/base/log.h"

namespace skerry {
namespace {

constexpr uint64_t kMostBytes = 256 << 20;
constexpr size_t kHexDigits = 64;
constexpr std::string_view kBetween = "  ";

std::string LineOf(const std::string& key, const Digest& sha256) {
  return fmt::format("{}{}{}\n", sha256.Hex(), kBetween, key);
}

}  // namespace

DigestList::DigestList(Path path, const std::function<bool(const std::string&)>& wanted) {
  if (const auto bytes = ReadFile(path, kMostBytes)) {
    std::string_view text = AsText(*bytes);
    for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
      const std::string_view line = text.substr(0, end);
      if (line.size() <= kHexDigits + kBetween.size() || line.substr(kHexDigits, kBetween.size()) != kBetween) continue;
      const auto digest = Digest::FromHex(line.substr(0, kHexDigits));
      const std::string key(line.substr(kHexDigits + kBetween.size()));
      if (digest && wanted(key)) digests_.insert_or_assign(key, *digest);
    }
  }
  std::string text;
  for (const auto& [key, digest] : digests_) text += LineOf(key, digest);
  auto file = File::Create(path);
  const Status written = file ? file->WriteAt(AsBytes(text), 0) : Status(tl::unexpected<Error>(file.error()));
  if (!written) {
    LogWarning("{} can't be written: {}", path.string(), written.error().message);
    return;
  }
  file_ = *std::move(file);
  end_ = text.size();
}

void DigestList::Add(const std::string& key, const Digest& sha256) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = digests_.try_emplace(key, sha256);
  if (!is_new && at->second == sha256) return;
  at->second = sha256;
  const std::string line = LineOf(key, sha256);
  if (file_ && file_->WriteAt(AsBytes(line), end_)) end_ += line.size();
}

std::optional<Digest> DigestList::Find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = digests_.find(key);
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace skerry
