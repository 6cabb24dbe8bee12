// Reading a part of an object into the caller's memory, from servers that answer a ranged GET in different ways: 206,
// 200 with Content-Range, and 200 with the whole body (RFC 9110, 14).
#ifndef SKERRY_HTTP_RANGE_H_
#define SKERRY_HTTP_RANGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/http/client.h"

namespace skerry {

// "bytes=5-9". `size` is at least 1 and offset + size does not overflow.
std::string RangeHeader(uint64_t offset, uint64_t size);

// One ranged GET. Not thread-safe; `out` must outlive it and must not be empty.
class RangeReader {
 public:
  // Of a server that ignores ranges: more bytes before the wanted ones than this are refused instead of skipped.
  static constexpr uint64_t kMaxSkipped = 1 << 30;

  // `told`: called with how many bytes from the beginning of `out` are there, whenever that has changed.
  RangeReader(uint64_t offset, MutableByteSpan out, std::function<void(uint64_t)> told = nullptr)
      : offset_(offset), out_(out), told_(std::move(told)) {}

  // Adds the Range header and the receiver to `request`. After an attempt whose body was cut it asks for the rest,
  // where the answer had a strong ETag (RFC 9110, 8.8.3): an answer with another one is kUnavailable, and then, as
  // without an ETag, the next attempt starts anew.
  void Prepare(HttpRequest& request);

  // What to say of a 2xx or 416 answer after the transfer: success when `out` is full, kCorrupt naming both sizes when
  // the object is shorter, kUnavailable when the body was.
  Status Finish(const HttpResponse& response) const;

 private:
  Result<bool> Receive(const HttpResponse& head, ByteSpan piece);
  // What this attempt asks for.
  uint64_t first() const { return offset_ + kept_; }
  uint64_t wanted() const { return out_.size() - kept_; }
  // Reads the head of the answer: where its body begins in the object.
  Status Begin(const HttpResponse& head);

  const uint64_t offset_;
  const MutableByteSpan out_;
  const std::function<void(uint64_t)> told_;
  bool begun_ = false;
  std::string etag_;   // of the answer whose bytes are in out_; empty when they can't be built upon
  uint64_t kept_ = 0;  // bytes of out_ from earlier attempts
  uint64_t skip_ = 0;  // bytes before the range that are still to come
  uint64_t filled_ = 0;
  uint64_t seen_ = 0;  // of the body
};

// "bytes 5-9/10" and "bytes */10".
struct ContentRange {
  std::optional<uint64_t> first, last, total;
};
std::optional<ContentRange> ParseContentRange(std::string_view text);

}  // namespace skerry

#endif  // SKERRY_HTTP_RANGE_H_
