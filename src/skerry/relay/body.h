// The bytes of one object, which are here or coming: written by who fetches them, read by any number of answers.
#ifndef SKERRY_RELAY_BODY_H_
#define SKERRY_RELAY_BODY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/http/event_loop.h"

namespace skerry {

// Bytes may be read as soon as they are there, but for the last kHeldBack, which wait until all of them were found to
// be the right ones: nobody can get a whole object that is not. Thread-safe, but for what is marked.
class Body : public std::enable_shared_from_this<Body> {
 public:
  static constexpr uint64_t kHeldBack = 64 << 10;
  // Segments come in any order, the bytes of one in theirs.
  static constexpr uint64_t kSegment = 4 << 20;

  enum class State { kComing, kRight, kFailed };

  class Reader {
   public:
    virtual ~Reader() = default;
    // There is more to read, or the state is another.
    virtual void OnMore() = 0;
  };

  // Right from the beginning.
  static std::shared_ptr<Body> OfBytes(Bytes bytes, const Digest& sha256);
  static std::shared_ptr<Body> OfFile(File file, uint64_t size, const Digest& sha256);
  // To be written into `file`, which lies on a disk or in memory. `held` lives as long as the body.
  static std::shared_ptr<Body> Coming(EventLoop& loop, File file, uint64_t size, std::shared_ptr<void> held = nullptr);

  uint64_t size() const { return size_; }
  State state() const { return state_; }
  // Why it failed.
  Error failure() const;

  // The entity tag, with its quotes: the SHA-256 of what is right. While it is coming it is one of this attempt alone,
  // so that nobody goes on with other bytes after wrong ones.
  std::string Tag() const;
  bool HasTag(std::string_view tag) const;

  // How many bytes from `offset` on may be read now.
  uint64_t Ready(uint64_t offset) const;
  // A reader waits for what is there.
  void Want(uint64_t offset) { wanted_ = offset / kSegment; }
  uint64_t WantedSegment() const { return wanted_; }
  Status Read(uint64_t offset, MutableByteSpan out) const;
  // On the loop: told of what comes until it is gone or the state is settled.
  void Watch(std::weak_ptr<Reader> reader);

  // For who fetches it.
  uint64_t segments() const { return (size_ + kSegment - 1) / kSegment; }
  uint64_t SegmentSize(uint64_t segment) const { return std::min(kSegment, size_ - segment * kSegment); }
  // What of a segment has been written.
  uint64_t Written(uint64_t segment) const { return written_[segment]; }
  // The next bytes of the segment. One thread a segment.
  Status Write(uint64_t segment, ByteSpan bytes);
  // SHA-256 of all bytes, which have been written.
  Result<Digest> Finish();
  // Ends it, once: what Finish said is right, or a failure.
  void SetRight(const Digest& sha256);
  void SetFailed(Error error);

 private:
  Body(uint64_t size, State state) : size_(size), state_(state), written_((size + kSegment - 1) / kSegment) {}

  void Tell();
  // Hashes what has come without a gap. mutex_ is held.
  Status CatchUp();
  uint64_t Contiguous(uint64_t offset) const;

  const uint64_t size_;
  std::atomic<State> state_;
  std::vector<std::atomic<uint64_t>> written_;  // of each segment
  std::atomic<uint64_t> wanted_ = 0;            // segment for which a reader asked last
  EventLoop* loop_ = nullptr;
  File file_;
  Bytes bytes_;
  std::string attempt_;  // tag while it is coming
  std::shared_ptr<void> held_;

  mutable std::mutex mutex_;
  Sha256 hash_;          // guarded by mutex_, like all below
  uint64_t hashed_ = 0;  // bytes from the beginning
  std::string right_;    // tag
  Error failure_{Code::kUnavailable, ""};

  std::atomic<bool> telling_ = false;
  std::vector<std::weak_ptr<Reader>> readers_;  // on the loop
};

}  // namespace skerry

#endif  // SKERRY_RELAY_BODY_H_
