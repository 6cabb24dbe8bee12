// A store as a value: its whole state can be copied, compared by a digest, and made to break a rule on purpose. For
// explorations of all states (explorer.h).
#ifndef SKERRY_TESTS_TESTING_MODEL_STORE_H_
#define SKERRY_TESTS_TESTING_MODEL_STORE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/hash.h"
#include "skerry/board/keys.h"
#include "skerry/board/store.h"

namespace skerry {

// Rules of store.h that a store may be made to break.
struct BrokenRules {
  bool swap_ignores_the_token = false;
  std::string put_is_not_durable;  // keys that contain it are acknowledged and forgotten
};

// Not thread-safe. Copies share their objects' bytes.
class ModelStore : public Store {
 public:
  struct Entry {
    Bytes bytes;
    std::string token;  // SHA-256 of the bytes
    Digest of_all;      // SHA-256 of key and token
  };
  using Entries = std::map<std::string, std::shared_ptr<const Entry>, std::less<>>;

  explicit ModelStore(BrokenRules broken = {}) : broken_(std::move(broken)) {}

  const Entries& entries() const { return entries_; }
  const Entry* Find(std::string_view key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.get();
  }
  // Puts an entry of another model, whatever this one would do with it.
  void Restore(std::string_view key, std::shared_ptr<const Entry> entry) {
    Forget(key);
    Toggle(entry->of_all);
    entries_[std::string(key)] = std::move(entry);
  }
  // Of all keys and contents: the exclusive or of their digests.
  const Digest& fingerprint() const { return fingerprint_; }

  std::string Describe() const override { return "a model of a store"; }
  Result<Object> Get(std::string_view key, uint64_t limit) override {
    SKERRY_TRY(ValidateKey(key));
    const Entry* entry = Find(key);
    if (entry == nullptr) return Fail(Code::kNotFound, "no object {}", key);
    if (entry->bytes.size() > limit) return Fail(Code::kCorrupt, "{} has more than {} bytes", key, limit);
    return Object{entry->bytes, Generation(entry->token)};
  }
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override {
    SKERRY_ASSIGN(const Object object, Get(key, UINT64_MAX));
    return MemorySource(object.bytes).Read(offset, out);
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    SKERRY_ASSIGN(const Object object, Get(key, UINT64_MAX));
    return ObjectInfo{.size = object.bytes.size()};
  }
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override {
    SKERRY_TRY(ValidateKey(key));
    Bytes bytes(source.size());
    SKERRY_TRY(source.Read(0, bytes));
    if (const Entry* entry = Find(key)) {
      if (entry->bytes == bytes) return {};
      return Fail(Code::kConflict, "{} holds other bytes already", key);
    }
    if (!broken_.put_is_not_durable.empty() && key.find(broken_.put_is_not_durable) != std::string_view::npos)
      return {};
    Write(key, std::move(bytes));
    return {};
  }
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    SKERRY_TRY(ValidateKey(key));
    const Entry* entry = Find(key);
    std::optional<Generation> there;
    if (entry != nullptr) there = Generation(entry->token);
    if (there != expected && !broken_.swap_ignores_the_token) {
      return Fail(Code::kConflict, "{} is not what it was: somebody else wrote it", key);
    }
    Write(key, ToBytes(bytes));
    return Generation(Find(key)->token);
  }
  Status Delete(std::string_view key) override {
    SKERRY_TRY(ValidateKey(key));
    Forget(key);
    return {};
  }
  Result<std::vector<std::string>> List(std::string_view prefix) override {
    std::vector<std::string> keys;
    for (auto at = entries_.lower_bound(prefix); at != entries_.end() && at->first.starts_with(prefix); ++at) {
      keys.push_back(at->first);
    }
    return keys;
  }

 private:
  void Write(std::string_view key, Bytes bytes) {
    std::string token = Sha256::Of(bytes).Hex();
    const Digest of_all = Sha256::Of(fmt::format("{} {}", key, token));
    Restore(key, std::make_shared<const Entry>(Entry{std::move(bytes), std::move(token), of_all}));
  }
  void Forget(std::string_view key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    Toggle(found->second->of_all);
    entries_.erase(found);
  }
  void Toggle(const Digest& digest) {
    for (size_t i = 0; i < digest.bytes.size(); ++i) fingerprint_.bytes[i] ^= digest.bytes[i];
  }

  BrokenRules broken_;
  Entries entries_;
  Digest fingerprint_;
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_MODEL_STORE_H_
