#include "skerry/relay/body.h"

#include <algorithm>
#include <utility>

#include "skerry/board/names.h"

namespace skerry {
namespace {

constexpr uint64_t kHashPiece = 1 << 20;

std::string Quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

}  // namespace

std::shared_ptr<Body> Body::OfBytes(Bytes bytes, const Digest& sha256) {
  std::shared_ptr<Body> body(new Body(bytes.size(), State::kRight));
  body->bytes_ = std::move(bytes);
  body->right_ = Quoted(sha256.Hex());
  return body;
}

std::shared_ptr<Body> Body::OfFile(File file, uint64_t size, const Digest& sha256) {
  std::shared_ptr<Body> body(new Body(size, State::kRight));
  body->file_ = std::move(file);
  body->right_ = Quoted(sha256.Hex());
  return body;
}

std::shared_ptr<Body> Body::Coming(EventLoop& loop, File file, uint64_t size, std::shared_ptr<void> held) {
  std::shared_ptr<Body> body(new Body(size, State::kComing));
  body->loop_ = &loop;
  body->file_ = std::move(file);
  body->held_ = std::move(held);
  body->attempt_ = Quoted("coming-" + RandomToken());
  return body;
}

Error Body::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string Body::Tag() const {
  const std::lock_guard lock(mutex_);
  return right_.empty() ? attempt_ : right_;
}

bool Body::HasTag(std::string_view tag) const {
  const std::lock_guard lock(mutex_);
  return !tag.empty() && (tag == right_ || tag == attempt_);
}

uint64_t Body::Contiguous(uint64_t offset) const {
  uint64_t end = offset;
  for (uint64_t segment = offset / kSegment; segment < written_.size(); ++segment) {
    const uint64_t there = segment * kSegment + written_[segment];
    if (there <= end) break;
    end = there;
    if (there < (segment + 1) * kSegment) break;
  }
  return end - offset;
}

uint64_t Body::Ready(uint64_t offset) const {
  if (offset >= size_ || state_ == State::kFailed) return 0;
  if (state_ == State::kRight) return size_ - offset;
  const uint64_t end = std::min(offset + Contiguous(offset), size_ - std::min(size_, kHeldBack));
  return end > offset ? end - offset : 0;
}

Status Body::Read(uint64_t offset, MutableByteSpan out) const {
  if (file_.is_open()) return file_.ReadAt(out, offset);
  std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  return {};
}

void Body::Watch(std::weak_ptr<Reader> reader) {
  readers_.push_back(std::move(reader));
  // What came just before is not told by whoever wrote it.
  if (state_ != State::kComing) Tell();
}

void Body::Tell() {
  if (loop_ == nullptr || telling_.exchange(true)) return;
  loop_->Post([self = shared_from_this()] {
    self->telling_ = false;
    const auto readers = std::exchange(self->readers_, {});
    const bool settled = self->state_ != State::kComing;
    for (const std::weak_ptr<Reader>& weak : readers) {
      const std::shared_ptr<Reader> reader = weak.lock();
      if (!reader) continue;
      if (!settled) self->readers_.push_back(weak);
      reader->OnMore();
    }
  });
}

Status Body::Write(uint64_t segment, ByteSpan bytes) {
  const uint64_t offset = segment * kSegment + written_[segment];
  SKERRY_TRY(file_.WriteAt(bytes, offset));
  written_[segment] += bytes.size();
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
    if (hashed_ == offset) {
      hash_.Update(bytes);
      hashed_ += bytes.size();
    }
    SKERRY_TRY(CatchUp());
  }
  Tell();
  return {};
}

Status Body::CatchUp() {
  Bytes piece;
  while (const uint64_t there = Contiguous(hashed_)) {
    piece.resize(std::min(there, kHashPiece));
    SKERRY_TRY(file_.ReadAt(piece, hashed_));
    hash_.Update(piece);
    hashed_ += piece.size();
  }
  return {};
}

Result<Digest> Body::Finish() {
  const std::lock_guard lock(mutex_);
  SKERRY_TRY(CatchUp());
  if (hashed_ != size_) return Fail(Code::kUnavailable, "{} of {} bytes have come", hashed_, size_);
  return hash_.Finish();
}

void Body::SetRight(const Digest& sha256) {
  {
    const std::lock_guard lock(mutex_);
    right_ = Quoted(sha256.Hex());
  }
  state_ = State::kRight;
  Tell();
}

void Body::SetFailed(Error error) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(error);
  }
  state_ = State::kFailed;
  Tell();
}

}  // namespace skerry
