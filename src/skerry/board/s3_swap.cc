// How a pointer is replaced in a bucket:
//   1. PUT with If-Match: <the expected ETag>, or If-None-Match: *. The request reaches the server at most once.
//      crash: the old or the new pointer, whole
//   2. 200: done. 412, and 404 where something was expected: somebody else was first, kConflict.
//   3. Anything else (409, 5xx, a lost connection) leaves open whether it was written. Read the object:
//        the bytes that were to be written   it was (they carry a nonce, so they are no other writer's)
//        still what was expected             it was not, or not yet: wait, go to 1. Should the first write arrive after
//                                            all, the second gets 412, and step 3 finds its bytes there.
//        anything else                       somebody else was first, kConflict
//        unreadable                          kUnavailable: the caller re-reads later
// A 412 while the object still has the expected ETag is a server that takes ETags only without their quotes: once more
// with the bare one, whose success is remembered.
#include <optional>

#include "skerry/board/keys.h"
#include "skerry/board/s3_store.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxPointerBytes = 1 << 20;

// `"abc"` and `W/"abc"` as `abc`.
std::string Bare(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"')) etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

bool SameBytes(ByteSpan a, ByteSpan b) { return AsText(a) == AsText(b); }

}  // namespace

// One CompareAndSwap.
class S3Store::Swap {
 public:
  Swap(S3Store& store, std::string name, const std::optional<Generation>& expected, ByteSpan bytes)
      : store_(store), name_(std::move(name)), expected_(expected), bytes_(bytes) {}

  Result<Generation> Run() {
    Backoff backoff = store_.client_->NewBackoff();
    form_ = store_.token_form_.load();
    while (true) {
      SKERRY_ASSIGN(const WriteOutcome outcome,
                    store_.client_->Put(name_, Payload::Of(bytes_), Condition(), /*repeat=*/false));
      if (outcome.kind == WriteOutcome::Kind::kWritten) return Written(outcome.token);
      const bool undecided = outcome.kind == WriteOutcome::Kind::kUndecided;
      may_be_written_ = may_be_written_ || undecided;
      if (!undecided && !may_be_written_ && !CanTryBare()) return Lost();

      SKERRY_TRY(Read());
      if (may_be_written_ && now_ && SameBytes(now_->bytes, bytes_)) return Written(now_->token);
      if (!IsStillExpected()) return Lost();
      if (!undecided && CanTryBare()) {
        form_ = TokenForm::kBare;
        continue;
      }
      // An earlier write of ours may yet arrive: only what is read decides.
      if (!undecided && !may_be_written_) return Lost();
      if (!backoff.WaitBeforeRetry(outcome.asked)) {
        return Annotate(outcome.reason, "the swap of " + name_ + " was not made");
      }
    }
  }

 private:
  WriteCondition Condition() const {
    if (!expected_) return {};
    return {form_ == TokenForm::kBare ? Bare(expected_->token()) : expected_->token()};
  }

  bool CanTryBare() const {
    return expected_ && form_ == TokenForm::kUnknown && Bare(expected_->token()) != expected_->token();
  }

  Result<Generation> Written(const std::string& token) {
    if (expected_) store_.token_form_ = form_ == TokenForm::kBare ? TokenForm::kBare : TokenForm::kVerbatim;
    if (!token.empty()) return Generation(token);
    SKERRY_TRY(Read());
    if (now_ && SameBytes(now_->bytes, bytes_)) return Generation(now_->token);
    return Fail(Code::kUnavailable, "{} was written, but the answer had no ETag and a read shows other bytes", name_);
  }

  tl::unexpected<Error> Lost() const {
    return Fail(Code::kConflict, "{} is not what it was: somebody else wrote it", name_);
  }

  Status Read() {
    Result<S3Object> read = store_.client_->Get(name_, kMaxPointerBytes);
    now_.reset();
    if (read) {
      now_ = *std::move(read);
      return {};
    }
    if (read.error().code == Code::kNotFound) return {};
    return Fail(Code::kUnavailable, "whether {} was written is open, and it can't be read: {}", name_,
                read.error().message);
  }

  bool IsStillExpected() const {
    if (!expected_) return !now_;
    return now_ && Bare(now_->token) == Bare(expected_->token());
  }

  S3Store& store_;
  const std::string name_;
  const std::optional<Generation>& expected_;
  const ByteSpan bytes_;
  TokenForm form_ = TokenForm::kUnknown;
  bool may_be_written_ = false;
  std::optional<S3Object> now_;  // as last read
};

Result<Generation> S3Store::CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                           ByteSpan bytes) {
  SKERRY_ASSIGN(std::string name, NameOf(key));
  if (expected && expected->token().empty()) {
    return Fail(Code::kUnsupported, "{} sends no ETags, so {} can't be replaced safely", Describe(), key);
  }
  return Swap(*this, std::move(name), expected, bytes).Run();
}

}  // namespace skerry
