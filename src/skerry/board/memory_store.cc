#include "skerry/board/memory_store.h"

#include <algorithm>

#include "skerry/base/hash.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

Generation GenerationOf(ByteSpan bytes) { return Generation(Sha256::Of(bytes).Hex()); }

}  // namespace

Result<const Bytes*> MemoryStore::Find(std::string_view key) const {
  SKERRY_TRY(ValidateKey(key));
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Fail(Code::kNotFound, "no object {} in memory", key);
  return &found->second;
}

Result<Object> MemoryStore::Get(std::string_view key, uint64_t limit) {
  const std::lock_guard lock(mutex_);
  SKERRY_ASSIGN(const Bytes* bytes, Find(key));
  if (bytes->size() > limit) {
    return Fail(Code::kCorrupt, "{} has {} bytes, more than the limit of {}", key, bytes->size(), limit);
  }
  return Object{*bytes, GenerationOf(*bytes)};
}

Status MemoryStore::ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) {
  const std::lock_guard lock(mutex_);
  SKERRY_ASSIGN(const Bytes* bytes, Find(key));
  if (offset > bytes->size() || out.size() > bytes->size() - offset) {
    return Fail(Code::kCorrupt, "{} has {} bytes, but {} bytes at {} were asked for", key, bytes->size(), out.size(),
                offset);
  }
  std::copy_n(bytes->begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  return {};
}

Result<ObjectInfo> MemoryStore::Stat(std::string_view key) {
  const std::lock_guard lock(mutex_);
  SKERRY_ASSIGN(const Bytes* bytes, Find(key));
  return ObjectInfo{.size = bytes->size()};
}

Status MemoryStore::PutIfAbsent(std::string_view key, const ByteSource& source) {
  SKERRY_TRY(ValidateKey(key));
  Bytes bytes(source.size());
  SKERRY_TRY(source.Read(0, bytes));
  const std::lock_guard lock(mutex_);
  const auto [at, inserted] = objects_.try_emplace(std::string(key), bytes);
  if (!inserted && at->second != bytes) {
    return Fail(Code::kConflict, "{} holds other bytes already: {} bytes with SHA-256 {}, not {} with {}", key,
                at->second.size(), Sha256::Of(at->second).Short(), bytes.size(), Sha256::Of(bytes).Short());
  }
  return {};
}

Result<Generation> MemoryStore::CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                               ByteSpan bytes) {
  SKERRY_TRY(ValidateKey(key));
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  const bool exists = found != objects_.end();
  if (exists != expected.has_value() || (exists && GenerationOf(found->second) != *expected)) {
    return Fail(Code::kConflict, "{} is not what it was: somebody else wrote it", key);
  }
  objects_[std::string(key)] = ToBytes(bytes);
  return GenerationOf(bytes);
}

Status MemoryStore::Delete(std::string_view key) {
  SKERRY_TRY(ValidateKey(key));
  const std::lock_guard lock(mutex_);
  if (const auto found = objects_.find(key); found != objects_.end()) objects_.erase(found);
  return {};
}

Result<std::vector<std::string>> MemoryStore::List(std::string_view prefix) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end() && at->first.starts_with(prefix); ++at) {
    keys.push_back(at->first);
  }
  return keys;
}

}  // namespace skerry
