// The few operations that a board needs from whatever keeps its objects. A backend is right when it passes
// store_conformance.h.
#ifndef SKERRY_BOARD_STORE_H_
#define SKERRY_BOARD_STORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/file.h"
#include "skerry/base/result.h"
#include "skerry/board/byte_source.h"

namespace skerry {

// What an object was when it was read: the token of a compare-and-swap. Opaque; only the store that made it understands
// it. Most stores derive it from the content, so equal bytes may get an equal token again (see
// Store::GenerationsRepeatWithContent): whoever swaps puts a nonce into the bytes.
class Generation {
 public:
  explicit Generation(std::string token) : token_(std::move(token)) {}
  const std::string& token() const { return token_; }
  bool operator==(const Generation&) const = default;

 private:
  std::string token_;
};

struct Object {
  Bytes bytes;
  Generation generation;
};

struct ObjectInfo {
  uint64_t size = 0;
};

// A flat map from keys (see keys.h, ValidateKey) to objects. A key is written either by PutIfAbsent, once and for ever,
// or by CompareAndSwap, never by both. All methods may be called from several threads and several processes at once;
// an object is seen whole or not at all. An invalid key is kInvalid, a missing object kNotFound.
class Store {
 public:
  virtual ~Store() = default;

  // For messages: "directory /mnt/board", "memory". Holds no secrets.
  virtual std::string Describe() const = 0;

  // A whole small object. More than `limit` bytes are kCorrupt, before anything is allocated.
  virtual Result<Object> Get(std::string_view key, uint64_t limit) = 0;

  // Fills `out` from `offset`. A range that does not lie within the object is kCorrupt: callers know the size from a
  // manifest.
  virtual Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) = 0;

  // The same for who passes the bytes on as they come: `told` is called, on the caller's thread, with how many bytes
  // from the beginning of `out` are there. After a transfer that broke off it may begin at less again, with other
  // bytes.
  virtual Status ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                                  const std::function<void(uint64_t)>& told);

  // Waits until a mutable object is no longer what `last` describes: the object as it is then (of at most `limit`
  // bytes), or nullopt when `time` has passed. One attempt, an interruption point. kUnsupported where the store can't
  // tell by itself, and has to be asked again and again with Get.
  virtual Result<std::optional<Object>> WaitForChange(std::string_view key, const Generation& last, uint64_t limit,
                                                      std::chrono::milliseconds time);

  virtual Result<ObjectInfo> Stat(std::string_view key) = 0;

  // Creates an immutable object, durable when this returns. The same bytes again are a no-op, other bytes kConflict and
  // leave what is there. After another error the object may be there or not, but never in part: repeat.
  virtual Status PutIfAbsent(std::string_view key, const ByteSource& source) = 0;

  // Replaces the object that `expected` describes, durably; nullopt: there must be none. kConflict when it is not (any
  // more) so. After any other error the new bytes may be there or not: re-read before deciding.
  virtual Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                            ByteSpan bytes) = 0;

  // A missing object is no error.
  virtual Status Delete(std::string_view key) = 0;

  // Removes what the store itself keeps below `prefix` (which ends in '/'): folders, lock files. Only after every
  // object there was deleted, and when nobody will write there again.
  virtual Status DeleteEmptyFolder([[maybe_unused]] std::string_view prefix) { return {}; }

  // All keys that begin with `prefix`, sorted. Reading never lists: this is for people and for gc.
  virtual Result<std::vector<std::string>> List(std::string_view prefix) = 0;

  // The first components below `prefix` (which ends in '/'), sorted, each once: names of objects and of folders. A
  // backend may name an empty folder.
  virtual Result<std::vector<std::string>> ListNames(std::string_view prefix);

  // Removes what writers that died left behind and nobody sees: temporary files, unfinished uploads. Only what is older
  // than `older_than`, which must exceed the longest write of a living writer; objects are never touched. Returns how
  // many it removed. May run beside readers, writers and other sweepers.
  virtual Result<uint64_t> SweepLeftovers(std::chrono::seconds older_than);

  // Where the object lies (or would lie), for reading it without a copy; nullopt where it is no local file.
  virtual std::optional<Path> LocalPath(std::string_view key) const;

  // Which form of a token this store's server took in a swap ("ETag without quotes"), once one was made; empty where
  // there are no forms. For people.
  virtual std::string DescribeTokens() const { return {}; }

  // Deviations of backends.
  // False: several writers may win the same swap, so only one publisher may be at work.
  virtual bool CompareAndSwapIsAtomic() const { return true; }
  // True: writing A, B, A gives the first and the last the same generation.
  virtual bool GenerationsRepeatWithContent() const { return true; }
};

}  // namespace skerry

#endif  // SKERRY_BOARD_STORE_H_
