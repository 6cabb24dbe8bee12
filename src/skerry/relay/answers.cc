#include "skerry/relay/answers.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "skerry/http/response_head.h"

namespace skerry {
namespace {

constexpr const char* kWaitHeader = "Skerry-Wait";

int StatusOf(const Error& error) {
  switch (error.code) {
    case Code::kNotFound: return 404;
    case Code::kCorrupt:
    case Code::kMismatch: return 502;
    case Code::kInvalid: return 502;  // the upstream refuses the relay
    default: return 503;
  }
}

}  // namespace

void KeyAnswer::OnGone() {
  if (gone()) return;
  port_ = nullptr;
  parts_.metrics.Ended(RelayedEnd::kClientGone, sent_);
}

void KeyAnswer::WriteHead(int status, std::string_view type, std::optional<uint64_t> length,
                          const HttpHeaders& headers) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", status, ReasonOf(status),
                                 HttpDate(std::chrono::system_clock::now()));
  for (const HttpHeaders::Field& field : headers.fields()) head += fmt::format("{}: {}\r\n", field.name, field.value);
  if (length) head += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", type, *length);
  head += framing_.keep ? "\r\n" : "Connection: close\r\n\r\n";
  port_->Write(head);
}

void KeyAnswer::Finish(RelayedEnd end) {
  if (gone()) return;
  parts_.metrics.Ended(end, sent_);
  std::exchange(port_, nullptr)->Finish(framing_.keep);
}

void KeyAnswer::Abort() {
  if (gone()) return;
  parts_.metrics.Ended(RelayedEnd::kCutOff, sent_);
  std::exchange(port_, nullptr)->Abort();
}

void KeyAnswer::Refuse(int status, std::string_view why) {
  if (gone()) return;
  const std::string_view type = status == 404   ? "not_found"
                                : status == 401 ? "unauthorized"
                                : status == 502 ? "wrong_upstream"
                                : status == 503 ? "unavailable"
                                                : "invalid";
  const nlohmann::ordered_json json = {{"error", {{"type", type}, {"message", why}}}};
  const std::string body = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  HttpHeaders headers;
  if (status == 401) headers.Add("WWW-Authenticate", "Bearer");
  if (status == 405) headers.Add("Allow", "GET, HEAD");
  if (status == 503) headers.Add("Retry-After", "1");
  WriteHead(status, "application/json", body.size(), headers);
  if (!is_head()) port_->Write(body);
  Finish(status == 404 ? RelayedEnd::kNotFound : status >= 500 ? RelayedEnd::kUnavailable : RelayedEnd::kRefused);
}

void KeyAnswer::RefuseFor(const Error& error) { Refuse(StatusOf(error), error.message); }

// Objects

void ObjectAnswer::Start() { Find(); }

void ObjectAnswer::Find() {
  ++attempts_;
  parts_.library.Find(key_, object_, is_head(), [weak = weak_from_this()](Result<FoundObject> found) {
    // The client may have gone meanwhile; the object comes all the same, for the next one.
    if (const auto self = weak.lock()) static_cast<ObjectAnswer&>(*self).OnFound(std::move(found));
  });
}

void ObjectAnswer::OnFound(Result<FoundObject> found) {
  if (gone()) return;
  if (!found) return RefuseFor(found.error());
  body_ = std::move(found->body);
  size_ = found->size;
  if (!body_) {  // to HEAD, of what is not here
    WriteHead(200, "application/octet-stream", size_, {{"Accept-Ranges", "bytes"}});
    return Finish(RelayedEnd::kComplete);
  }
  // Before it looks what is there: nothing may come in between.
  if (body_->state() == Body::State::kComing) {
    body_->Watch(std::static_pointer_cast<ObjectAnswer>(shared_from_this()));
  }
  Pump();
}

void ObjectAnswer::Begin() {
  begun_ = true;
  range_ = RangeAskedFor(request_.headers, size_, [this](std::string_view tag) { return body_->HasTag(tag); });
  at_ = range_.begin;
  HttpHeaders headers{{"ETag", body_->Tag()}, {"Accept-Ranges", "bytes"}};
  // What has a name of its own never changes.
  const bool for_ever = object_.kind != ObjectKind::kBoardInfo && object_.kind != ObjectKind::kRunInfo;
  headers.Add("Cache-Control", for_ever ? "max-age=31536000, immutable" : "max-age=30");
  if (range_.status == 206) {
    headers.Add("Content-Range", fmt::format("bytes {}-{}/{}", range_.begin, range_.end - 1, size_));
  }
  if (range_.status == 416) headers.Add("Content-Range", fmt::format("bytes */{}", size_));
  const bool document = object_.kind != ObjectKind::kData && object_.kind != ObjectKind::kLayout;
  std::optional<uint64_t> length = range_.end - range_.begin;
  if (range_.status == 304) length.reset();
  WriteHead(range_.status, document ? "application/json" : "application/octet-stream", length, headers);
  if (range_.status == 304) return Finish(RelayedEnd::kNotModified);
  if (range_.status > 400) return Finish(RelayedEnd::kRefused);
  if (is_head()) return Finish(RelayedEnd::kComplete);
}

void ObjectAnswer::Pump() {
  if (gone() || !body_) return;
  if (body_->state() == Body::State::kFailed) {
    if (begun_) return Abort();
    const Error why = body_->failure();
    body_.reset();
    // Wrong bytes: other upstreams may have the right ones, and whoever was wrong is not asked again.
    if (why.code != Code::kCorrupt || attempts_ >= kMostAttempts) return RefuseFor(why);
    return Find();
  }
  if (!begun_) {
    // Nothing is promised before there is something to send: it may be gone, or wrong.
    const RequestedRange range =
        RangeAskedFor(request_.headers, size_, [this](std::string_view tag) { return body_->HasTag(tag); });
    const bool has_bytes = range.status < 300 && range.end > range.begin && !is_head();
    if (has_bytes && body_->Ready(range.begin) == 0) return body_->Want(range.begin);
    Begin();
  }
  Bytes piece;
  for (size_t turn = 0; !gone() && at_ < range_.end && port_->unsent() < kMostUnsent;) {
    const uint64_t ready = std::min(body_->Ready(at_), range_.end - at_);
    if (ready == 0) return body_->Want(at_);
    if (turn >= kTurn) {
      parts_.loop.Post([weak = weak_from_this()] {
        if (const auto self = weak.lock()) static_cast<ObjectAnswer&>(*self).Pump();
      });
      return;
    }
    piece.resize(std::min<uint64_t>(ready, kPiece));
    if (!body_->Read(at_, piece)) return Abort();
    at_ += piece.size();
    sent_ += piece.size();
    turn += piece.size();
    port_->Write(AsText(piece));
  }
  if (!gone() && begun_ && at_ == range_.end) Finish(RelayedEnd::kComplete);
}

// Heads

void HeadAnswer::Start() {
  if (const std::string* text = request_.headers.FindValue(kWaitHeader)) {
    uint64_t seconds = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
    if (text->empty() || error != std::errc() || end != text->data() + text->size()) {
      return Refuse(400, "Skerry-Wait is a whole number of seconds");
    }
    wait_ = std::chrono::seconds(std::min<uint64_t>(seconds, kLongestWait.count()));
  }
  if (SharedHead fresh = parts_.heads.IfFresh(run_)) return OnHead(std::move(fresh), /*may_wait=*/true);
  const bool taken = parts_.library.Run([&parts = parts_, run = run_, weak = weak_from_this()] {
    auto head = std::make_shared<Result<SharedHead>>(parts.heads.Get(run));
    parts.loop.Post([head, weak] {
      if (const auto self = weak.lock()) static_cast<HeadAnswer&>(*self).OnHead(*head, true);
    });
  });
  if (!taken) Refuse(503, "too many requests are waiting");
}

void HeadAnswer::OnHead(Result<SharedHead> head, bool may_wait) {
  if (gone()) return;
  if (!head) return RefuseFor(head.error());
  const std::string& tag = (*head)->tag;
  const std::string* has = request_.headers.FindValue("If-None-Match");
  const bool same = has != nullptr && ListHasTag(*has, /*weak=*/true, [&](std::string_view t) { return t == tag; });
  if (!same || !may_wait || !wait_ || wait_->count() == 0 || parts_.stopping) return Answer(**head);
  waiting_ = parts_.heads.OnChange(run_, tag, [&loop = parts_.loop, weak = weak_from_this()](SharedHead changed) {
    loop.Post([weak, changed = std::move(changed)] {
      if (const auto self = weak.lock()) static_cast<HeadAnswer&>(*self).OnHead(changed, false);
    });
  });
  if (!waiting_) {  // it has just moved
    const SharedHead now = parts_.heads.IfFresh(run_);
    return Answer(now ? *now : **head);
  }
  held_ = *head;
  timer_ = parts_.loop.Every(*wait_, [weak = weak_from_this(), head = *head] {
    if (const auto self = weak.lock()) static_cast<HeadAnswer&>(*self).OnHead(head, false);
  });
}

void HeadAnswer::Answer(const RelayedHead& head) {
  waiting_.reset();
  timer_.reset();
  const RequestedRange range =
      RangeAskedFor(request_.headers, head.bytes.size(), [&](std::string_view tag) { return tag == head.tag; });
  HttpHeaders headers{{"ETag", head.tag}, {"Cache-Control", "no-cache"}};
  const auto age = std::chrono::steady_clock::now() - head.told;
  if (head.upstream != RelayedHead::kNone) {
    headers.Add("Age", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(age).count()));
  }
  if (wait_) headers.Add(kWaitHeader, std::to_string(wait_->count()));
  if (range.status == 304 || range.status == 412) {
    WriteHead(range.status, "application/json", range.status == 304 ? std::nullopt : std::optional<uint64_t>(0),
              headers);
    return Finish(range.status == 304 ? RelayedEnd::kNotModified : RelayedEnd::kRefused);
  }
  // Whole, whatever range was asked for: it is small.
  WriteHead(200, "application/json", head.bytes.size(), headers);
  if (!is_head()) {
    sent_ = head.bytes.size();
    port_->Write(AsText(head.bytes));
  }
  Finish(RelayedEnd::kComplete);
}

void HeadAnswer::OnClientEnd() {
  if (waiting_) OnHead(held_, /*may_wait=*/false);
}

void HeadAnswer::OnGone() {
  waiting_.reset();
  timer_.reset();
  KeyAnswer::OnGone();
}

}  // namespace skerry
