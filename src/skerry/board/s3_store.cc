// How an object is written (PutIfAbsent):
//   up to part_bytes: one PUT with If-None-Match: *, sent again while its outcome is unknown; when something is there
//     (412), its bytes are compared. A crash leaves the object, or nothing.
//   larger: HEAD, then an upload in parts (s3/multipart.cc has the steps). A crash leaves parts that SweepLeftovers
//     removes.
//
// How a pointer is replaced (CompareAndSwap): s3_swap.cc.
#include "skerry/board/s3_store.h"

#include <algorithm>

#include "skerry/base/text.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

constexpr uint64_t kBlock = 4 << 20;

Payload PayloadOf(const ByteSource& source) {
  return {.size = source.size(),
          .read = [&source](uint64_t offset, MutableByteSpan out) { return source.Read(offset, out); }};
}

}  // namespace

S3Store::S3Store(std::shared_ptr<S3Client> client, std::string prefix)
    : client_(std::move(client)), prefix_(std::move(prefix)) {}

Result<std::shared_ptr<S3Store>> S3Store::Open(S3Options options, std::string prefix) {
  while (prefix.ends_with('/')) prefix.pop_back();
  if (!prefix.empty()) {
    if (Status valid = ValidateKey(prefix); !valid)
      return Annotate(std::move(valid).error(), "the prefix in the bucket");
    prefix += '/';
  }
  SKERRY_ASSIGN(std::shared_ptr<S3Client> client, S3Client::Make(std::move(options)));
  return std::shared_ptr<S3Store>(new S3Store(std::move(client), std::move(prefix)));
}

std::string S3Store::Describe() const {
  if (prefix_.empty()) return client_->Describe();
  return fmt::format("{} in {}", Printable(prefix_), client_->Describe());
}

std::string S3Store::DescribeTokens() const {
  switch (token_form_.load()) {
    case TokenForm::kVerbatim:
      return GenerationsRepeatWithContent() ? "ETag as the server sends it" : "generation number";
    case TokenForm::kBare: return "ETag without quotes";
    case TokenForm::kUnknown: break;
  }
  return {};
}

bool S3Store::GenerationsRepeatWithContent() const {
  return client_->options().conditions != ConditionDialect::kGoogle;
}

Result<std::string> S3Store::NameOf(std::string_view key) const {
  SKERRY_TRY(ValidateKey(key));
  std::string name = prefix_ + std::string(key);
  if (name.size() > kMaxKeySize) {
    return Fail(Code::kInvalid, "{} has {} bytes with its prefix; S3 takes {}", Printable(name), name.size(),
                kMaxKeySize);
  }
  return name;
}

Result<Object> S3Store::Get(std::string_view key, uint64_t limit) {
  SKERRY_ASSIGN(const std::string name, NameOf(key));
  SKERRY_ASSIGN(S3Object object, client_->Get(name, limit));
  return Object{std::move(object.bytes), Generation(std::move(object.token))};
}

Status S3Store::ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) {
  return ReadRangeTelling(key, offset, out, nullptr);
}

Status S3Store::ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                                 const std::function<void(uint64_t)>& told) {
  SKERRY_ASSIGN(const std::string name, NameOf(key));
  if (out.size() > UINT64_MAX - offset) {
    return Fail(Code::kCorrupt, "{}: no object has {} bytes at {}", key, out.size(), offset);
  }
  if (!out.empty()) return client_->GetRange(name, offset, out, told);
  SKERRY_ASSIGN(const S3ObjectInfo info, client_->Head(name));
  if (offset <= info.size) return {};
  return Fail(Code::kCorrupt, "{} has {} bytes, but 0 bytes at {} were asked for", key, info.size, offset);
}

Result<ObjectInfo> S3Store::Stat(std::string_view key) {
  SKERRY_ASSIGN(const std::string name, NameOf(key));
  SKERRY_ASSIGN(const S3ObjectInfo info, client_->Head(name));
  return ObjectInfo{.size = info.size};
}

Status S3Store::CompareWithExisting(std::string_view key, const ByteSource& source) {
  SKERRY_ASSIGN(const ObjectInfo there, Stat(key));
  if (there.size != source.size()) {
    return Fail(Code::kConflict, "{} holds other bytes already: {} of them, not {}", key, there.size, source.size());
  }
  Bytes stored(std::min(source.size(), kBlock)), given(stored.size());
  for (uint64_t done = 0; done < source.size();) {
    const uint64_t size = std::min(source.size() - done, kBlock);
    SKERRY_TRY(ReadRange(key, done, MutableByteSpan(stored).first(size)));
    SKERRY_TRY(source.Read(done, MutableByteSpan(given).first(size)));
    if (!std::equal(stored.begin(), stored.begin() + static_cast<ptrdiff_t>(size), given.begin())) {
      return Fail(Code::kConflict, "{} holds other bytes already: as many, {}, but not the same", key, there.size);
    }
    done += size;
  }
  return {};
}

Status S3Store::PutIfAbsent(std::string_view key, const ByteSource& source) {
  SKERRY_ASSIGN(const std::string name, NameOf(key));
  if (source.size() > client_->options().part_bytes) {
    const Result<S3ObjectInfo> there = client_->Head(name);
    if (there) return CompareWithExisting(key, source);
    if (there.error().code != Code::kNotFound) return tl::unexpected<Error>(there.error());
    SKERRY_ASSIGN(const UploadOutcome uploaded, client_->Upload(name, PayloadOf(source)));
    if (uploaded == UploadOutcome::kStored) return {};
    Status stored = CompareWithExisting(key, source);
    if (stored || stored.error().code != Code::kNotFound) return stored;
    return Fail(Code::kUnavailable, "the upload of {} came to no end, and it is not there: store it again", key);
  }
  SKERRY_ASSIGN(const WriteOutcome outcome, client_->Put(name, PayloadOf(source), {}, /*repeat=*/true));
  if (outcome.kind == WriteOutcome::Kind::kWritten) return {};
  if (outcome.kind == WriteOutcome::Kind::kConditionFailed) return CompareWithExisting(key, source);
  return tl::unexpected<Error>(outcome.reason);
}

Status S3Store::Delete(std::string_view key) {
  SKERRY_ASSIGN(const std::string name, NameOf(key));
  return client_->Delete(name);
}

Result<std::vector<std::string>> S3Store::List(std::string_view prefix) {
  const std::string whole = prefix_ + std::string(prefix);
  SKERRY_ASSIGN(const S3Listing listing, client_->List(whole, ""));
  std::vector<std::string> keys;
  for (const std::string& name : listing.keys) {
    if (!name.starts_with(whole)) continue;
    std::string key = name.substr(prefix_.size());
    if (ValidateKey(key)) keys.push_back(std::move(key));  // else a folder's marker, or not ours
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

Result<std::vector<std::string>> S3Store::ListNames(std::string_view prefix) {
  std::string folder = prefix_ + std::string(prefix);
  if (!folder.empty() && !folder.ends_with('/')) folder += '/';
  SKERRY_ASSIGN(S3Listing listing, client_->List(folder, "/"));
  std::vector<std::string> names;
  for (std::vector<std::string>* found : {&listing.keys, &listing.folders}) {
    for (std::string& name : *found) {
      if (!name.starts_with(folder)) continue;
      name.erase(0, folder.size());
      if (name.ends_with('/')) name.pop_back();
      if (ValidateKey(name)) names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<uint64_t> S3Store::SweepLeftovers(std::chrono::seconds older_than) {
  return client_->AbortUploads(prefix_, older_than);
}

}  // namespace skerry
