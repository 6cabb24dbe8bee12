// A file of SHA-256 digests by key, as sha256sum prints them.
#ifndef SKERRY_RELAY_DIGEST_LIST_H_
#define SKERRY_RELAY_DIGEST_LIST_H_

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "skerry/base/file.h"
#include "skerry/base/hash.h"

namespace skerry {

// One line is appended for each digest; a line that a crash has torn is passed over, and one that can't be written is
// missing after the next start: who relies on the list asks again for what is not in it. Thread-safe.
class DigestList {
 public:
  // Reads the file, and writes it anew with the keys that are `wanted` still.
  DigestList(Path path, const std::function<bool(const std::string&)>& wanted);

  void Add(const std::string& key, const Digest& sha256);
  std::optional<Digest> Find(const std::string& key) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Digest> digests_;  // guarded by mutex_, like all below
  std::optional<File> file_;
  uint64_t end_ = 0;
};

}  // namespace skerry

#endif  // SKERRY_RELAY_DIGEST_LIST_H_
