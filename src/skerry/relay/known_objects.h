// What heads, manifests and anchors that were read say about objects: which bytes are the right ones.
#ifndef SKERRY_RELAY_KNOWN_OBJECTS_H_
#define SKERRY_RELAY_KNOWN_OBJECTS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "skerry/board/anchor.h"
#include "skerry/board/head.h"
#include "skerry/board/manifest.h"

namespace skerry {

struct KnownObject {
  Digest sha256;
  std::optional<uint64_t> size;  // of a manifest it is not said
};

// By key. Holds the last kMost that were learned: what was forgotten is learned again when its manifest is read again.
// Only from documents that are themselves what something else says that they are. Thread-safe.
class KnownObjects {
 public:
  static constexpr size_t kMost = 200'000;

  void Learn(const Head& head);
  void Learn(const Manifest& manifest);
  void Learn(const Anchor& anchor);
  std::optional<KnownObject> Find(const std::string& key) const;

 private:
  void Add(std::string key, const Digest& sha256, std::optional<uint64_t> size);
  void Add(const ObjectRef& object);
  // Under its own name and under the alias.
  void AddManifest(const RunId& run, Version version, const Digest& sha256);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, KnownObject> known_;  // guarded by mutex_
  std::deque<std::string> order_;                       // guarded by mutex_
};

}  // namespace skerry

#endif  // SKERRY_RELAY_KNOWN_OBJECTS_H_
