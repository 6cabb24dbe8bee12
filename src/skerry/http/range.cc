#include "skerry/http/range.h"

#include <algorithm>
#include <charconv>

#include "skerry/base/text.h"

namespace skerry {
namespace {

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string RangeHeader(uint64_t offset, uint64_t size) {
  return fmt::format("bytes={}-{}", offset, offset + size - 1);
}

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || slash == std::string_view::npos) return std::nullopt;
  ContentRange range;
  if (const std::string_view total = text.substr(slash + 1); total != "*") {
    range.total = ParseNumber(total);
    if (!range.total) return std::nullopt;
  }
  const std::string_view part = text.substr(kUnit.size(), slash - kUnit.size());
  if (part == "*") return range;
  const size_t dash = part.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  range.first = ParseNumber(part.substr(0, dash));
  range.last = ParseNumber(part.substr(dash + 1));
  if (!range.first || !range.last || *range.last < *range.first) return std::nullopt;
  return range;
}

void RangeReader::Prepare(HttpRequest& request) {
  begun_ = false;
  skip_ = seen_ = 0;
  if (etag_.empty() || filled_ == out_.size()) filled_ = 0;
  kept_ = filled_;
  request.headers.Add("Range", RangeHeader(first(), wanted()));
  request.receive = [this](const HttpResponse& head, ByteSpan piece) { return Receive(head, piece); };
}

Status RangeReader::Begin(const HttpResponse& head) {
  begun_ = true;
  std::string etag = head.headers.Find("ETag").value_or("");
  if (etag.starts_with("W/")) etag.clear();
  const bool other = kept_ > 0 && etag != etag_;
  etag_ = other ? "" : std::move(etag);
  if (other) return Fail(Code::kUnavailable, "the object changed while it was read");
  const std::optional<std::string> text = head.headers.Find("Content-Range");
  if (!text) {
    if (head.status == 206) return Fail(Code::kUnavailable, "answered 206 without a Content-Range");
    skip_ = first();  // the whole object
    if (skip_ > kMaxSkipped) {
      return Fail(Code::kUnsupported, "the server ignores ranges and would send {} bytes before the wanted ones",
                  skip_);
    }
    return {};
  }
  const std::optional<ContentRange> range = ParseContentRange(*text);
  if (!range || range->first != first()) {
    return Fail(Code::kUnavailable, "asked for {}, but the answer has Content-Range \"{}\"",
                RangeHeader(first(), wanted()), Printable(*text));
  }
  if (*range->last - first() >= wanted()) {
    return Fail(Code::kUnavailable, "asked for {}, but the answer is longer: \"{}\"", RangeHeader(first(), wanted()),
                Printable(*text));
  }
  return {};
}

Result<bool> RangeReader::Receive(const HttpResponse& head, ByteSpan piece) {
  if (!begun_) SKERRY_TRY(Begin(head));
  seen_ += piece.size();
  const size_t skipped = std::min<uint64_t>(skip_, piece.size());
  skip_ -= skipped;
  piece = piece.subspan(skipped);
  const size_t taken = std::min<uint64_t>(piece.size(), out_.size() - filled_);
  std::copy_n(piece.begin(), taken, out_.begin() + static_cast<ptrdiff_t>(filled_));
  filled_ += taken;
  if (told_ && taken > 0) told_(filled_);
  return taken == piece.size();  // more than was asked for: the rest of a whole object
}

Status RangeReader::Finish(const HttpResponse& response) const {
  if (filled_ == out_.size()) return {};
  const std::optional<std::string> text = response.headers.Find("Content-Range");
  const std::optional<ContentRange> range = text ? ParseContentRange(*text) : std::nullopt;
  std::string total = "fewer";
  if (range && range->total) total = std::to_string(*range->total);
  // A whole object that ended before the range did: libcurl has checked that all of it came.
  if (!text && response.status == 200) total = std::to_string(seen_);
  if (response.status != 416 && range && range->last && first() + filled_ - kept_ != *range->last + 1) {
    return Fail(Code::kUnavailable, "the answer ended after {} of its {} bytes", filled_ - kept_,
                *range->last + 1 - first());
  }
  return Fail(Code::kCorrupt, "has {} bytes, but {} bytes at {} were asked for", total, out_.size(), offset_);
}

}  // namespace skerry
