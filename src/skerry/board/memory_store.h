// A board for tests and simulations. Its generations are content hashes, like those of S3, so that code which relies on
// a token being fresh fails here too.
#ifndef SKERRY_BOARD_MEMORY_STORE_H_
#define SKERRY_BOARD_MEMORY_STORE_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "skerry/board/store.h"

namespace skerry {

// Thread-safe: one mutex around everything.
class MemoryStore : public Store {
 public:
  std::string Describe() const override { return "memory"; }
  Result<Object> Get(std::string_view key, uint64_t limit) override;
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override;
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override;
  Status Delete(std::string_view key) override;
  Result<std::vector<std::string>> List(std::string_view prefix) override;

 private:
  Result<const Bytes*> Find(std::string_view key) const;

  std::mutex mutex_;
  std::map<std::string, Bytes, std::less<>> objects_;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_MEMORY_STORE_H_
