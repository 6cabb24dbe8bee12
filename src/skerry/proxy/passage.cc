#include "skerry/proxy/passage.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "skerry/http/listen_address.h"
#include "skerry/http/response_head.h"
#include "skerry/proxy/own_answer.h"
#include "skerry/proxy/passed_headers.h"

namespace skerry {
namespace {

constexpr std::string_view kMember = "weight_version";
// Bytes of an answer that are sent together, if they are there.
constexpr size_t kGathered = 16 << 10;

double SecondsSince(Passage::Clock::time_point time) {
  return std::chrono::duration<double>(Passage::Clock::now() - time).count();
}

std::string TraceOf(const HttpHeaders& headers) {
  const std::string* parent = headers.FindValue("traceparent");  // version-trace-parent-flags, hexadecimal
  return parent != nullptr && parent->size() >= 35 ? parent->substr(3, 32) : "";
}

// UTF-16 or UTF-32, with or without a byte order mark: JSON's first character is ASCII.
bool IsWideText(std::string_view body) {
  const std::string_view first = body.substr(0, 4);
  return first.find('\0') != std::string_view::npos || first.substr(0, 2) == "\xFE\xFF" ||
         first.substr(0, 2) == "\xFF\xFE";
}

}  // namespace

Passage::Passage(Hall& hall, ServerRequest head, const RequestFraming& framing, ClientPort& port)
    : hall_(hall),
      request_(std::move(head)),
      framing_(framing),
      port_(&port),
      route_(FactsOf(request_.method, request_.path())) {}

void Passage::Begin(uint64_t& max_body) {
  max_body = hall_.options().max_body;
  if (request_.target.raw.empty() || request_.target.raw.front() != '/') {
    if (request_.target.raw != "*") return Fail(400, "invalid", "the request's target is no path", /*retry=*/false);
  }
  if (route_.is_control) {
    return Fail(403, "forbidden",
                fmt::format("{} acts on the engine itself: only its agent may call it", request_.path()),
                /*retry=*/false);
  }
  if (hall_.stopping()) return Fail(503, "NoEngineInRotation", "this process is being stopped", /*retry=*/true);
  auto constraint = ParseVersionConstraint(request_.headers, "");
  if (!constraint) return Fail(400, "invalid", constraint.error().message, /*retry=*/false);
  constraint_ = *constraint;
  if (framing_.length.value_or(0) > max_body) {
    return Fail(413, "invalid", fmt::format("the body is longer than {} bytes", max_body), /*retry=*/false);
  }
  whole_body_ = framing_.has_body() && (route_.is_generation || WantsWholeBody());
  if (!whole_body_) Choose();
}

void Passage::OnBody(std::string_view piece) {
  bytes_in_ += piece.size();
  if (port_ == nullptr || body_refused_) return;
  if (whole_body_) {
    if (!hall_.Keep(piece.size())) {
      return Fail(503, "TooManyRequests", "too much is kept for other requests", /*retry=*/true);
    }
    kept_ += piece.size();
    body_ += piece;
    return;
  }
  if (!call_) return;  // the server has answered without waiting for all of it
  if (framing_.chunked_body) {
    call_->Send(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
  } else {
    call_->Send(piece);
  }
  if (call_->unsent() > kMaxUnsent) port_->WantBody(false);
}

void Passage::OnBodyEnd() {
  body_ended_ = true;
  if (port_ == nullptr) return;
  if (whole_body_) return TakeBodyConstraint();
  if (call_ && framing_.chunked_body) call_->Send("0\r\n\r\n");
}

void Passage::OnBodyRefused(int status, std::string_view why) {
  body_refused_ = true;
  if (AnswerBegun()) {
    Close(RequestEnd::kClientGone);
    return;
  }
  Fail(status, "invalid", why, /*retry=*/false);
}

void Passage::TakeBodyConstraint() {
  if (!route_.is_generation) return Choose();
  auto members = FindMembers(body_);
  // Engines that are written in Python would take it, and a constraint in it would go unseen.
  if (!members && IsWideText(body_)) return Fail(400, "invalid", "the body is not UTF-8", /*retry=*/false);
  std::string_view given;
  bool present = false;
  for (const JsonMember& member : members.value_or(std::vector<JsonMember>())) {
    if (member.name != kMember) continue;
    if (present) return Fail(400, "invalid", "the body has weight_version twice", /*retry=*/false);
    present = true;
    given = member.value;
  }
  LookAtBody(members ? &*members : nullptr);
  if (present) {
    auto constraint = ParseVersionConstraint(request_.headers, given);
    if (!constraint) return Fail(400, "invalid", constraint.error().message, /*retry=*/false);
    constraint_ = *constraint;
    body_ = WithoutMembers(body_, *members, kMember);
  }
  Choose();
}

void Passage::Hold(Clock::time_point deadline) {
  deadline_ = deadline;
  if (held_) return;
  if (!hall_.Hold(shared_from_this())) {
    return Fail(503, "TooManyRequests", fmt::format("{} requests are held already", hall_.options().max_held),
                /*retry=*/true);
  }
  held_ = true;
  // A body that is passed on as it comes waits where it is.
  if (!whole_body_) port_->WantBody(false);
}

void Passage::Unhold() {
  if (!std::exchange(held_, false)) return;
  hall_.metrics().WasHeld(SecondsSince(begun_));
  hall_.NoLongerHeld(shared_from_this());
}

void Passage::Retry() {
  const auto self = shared_from_this();
  if (held_) Choose();
}

std::string Passage::RequestHead(std::optional<uint64_t> length) {
  std::string head = fmt::format("{} {} HTTP/1.1\r\n", request_.method, request_.target.raw);
  AppendPassedHeaders(request_.headers, /*ours=*/false, head);
  if (request_.headers.FindValue("Host") == nullptr) {  // HTTP/1.0 may go without, HTTP/1.1 may not
    const UpstreamOptions& server = Server().options();
    head += fmt::format("Host: {}\r\n", ListenAddress{.host = server.host, .port = server.port}.ToString());
  }
  AddToRequest(head);
  if (length) {
    head += fmt::format("Content-Length: {}\r\n", *length);
  } else if (framing_.chunked_body) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  head += "\r\n";
  return head;
}

void Passage::SendRequest(bool fresh) {
  if (!fresh) resent_ = false;  // another server, or the first
  call_ = Server().Call(*this, request_.method == "HEAD", fresh);
  std::string bytes = RequestHead(whole_body_ ? std::optional<uint64_t>(body_.size()) : framing_.length);
  if (whole_body_) bytes += body_;
  call_->Send(bytes);
  if (!whole_body_ && !body_ended_) port_->WantBody(true);
}

void Passage::NoteAnswer(int status) {
  status_ = status;
  first_byte_ = Clock::now();
  hall_.metrics().FirstByte(SecondsSince(begun_));
}

void Passage::Gathered() {
  if (gathered_.size() >= kGathered) SendGathered();
}

void Passage::SendGathered() {
  if (gathered_.empty()) return;
  port_->Write(gathered_);
  gathered_.clear();
  if (gathered_.capacity() > kGathered) std::string().swap(gathered_);
  if (!call_ || port_->unsent() <= kMaxUnsent) return;
  blocked_ = true;
  call_->WantAnswer(false);
}

void Passage::OnDrained() {
  if (!call_ || !std::exchange(blocked_, false)) return;
  OnUnblocked();
  call_->WantAnswer(true);
}

void Passage::OnCallDrained() {
  if (port_ != nullptr && !whole_body_) port_->WantBody(true);
}

void Passage::Finish(bool keep, RequestEnd end) {
  const auto self = shared_from_this();
  SendGathered();
  Record(end);
  LetGo();
  std::exchange(port_, nullptr)->Finish(keep);
}

void Passage::OnCallFailed(UpstreamFailure kind, const std::string& why) {
  const auto self = shared_from_this();
  const bool again = call_->MayNotHaveArrived() && !resent_ && CanSendAgain();
  call_.reset();
  if (again) {
    resent_ = true;
    return SendRequest(/*fresh=*/true);
  }
  if (AnswerBegun()) {
    Close(RequestEnd::kEngineBrokeOff);
    return;
  }
  OnFailed(kind, why);
}

void Passage::OnGone() {
  const auto self = shared_from_this();
  if (port_ == nullptr) return;
  Close(RequestEnd::kClientGone);
}

void Passage::Close(RequestEnd end) {
  const auto self = shared_from_this();
  Record(end);
  LetGo();
  std::exchange(port_, nullptr)->Abort();
}

void Passage::LetGo() {
  if (call_) std::exchange(call_, nullptr)->Cancel();
  Leave();
  if (std::exchange(held_, false)) hall_.NoLongerHeld(shared_from_this());
  LetBodyGo();
}

void Passage::LetBodyGo() {
  hall_.Release(std::exchange(kept_, 0));
  std::string().swap(body_);
}

void Passage::Refuse(const Admission::Refused& refused) {
  if (!refused.not_ready) return Fail(503, "NoEngineInRotation", "no engine is in rotation", /*retry=*/true);
  Answer(NotReadyAnswer(refused, constraint_), RequestEnd::kNotReady);
}

void Passage::Fail(int status, std::string_view type, std::string_view message, bool retry) {
  Answer(ErrorAnswer(status, type, message, retry), status >= 500 ? RequestEnd::kNoEngine : RequestEnd::kRefused);
}

void Passage::Answer(const ServerResponse& response, RequestEnd end) {
  const auto self = weak_from_this().lock();
  const bool keep = framing_.keep && !body_refused_;
  std::string bytes = *ResponseHead(response, {.keep = keep, .chunked = false}, std::chrono::system_clock::now());
  if (request_.method != "HEAD") bytes += response.body;
  status_ = response.status;
  bytes_out_ += response.body.size();
  Record(end);
  LetGo();
  ClientPort* port = std::exchange(port_, nullptr);
  port->Write(bytes);
  port->Finish(keep);
}

void Passage::Record(RequestEnd end) {
  hall_.metrics().Ended(end, SecondsSince(begun_), bytes_in_, bytes_out_);
  if (!hall_.log().enabled()) return;
  const std::string trace = TraceOf(request_.headers);
  AccessLogEntry entry{.client = request_.peer,
                       .method = request_.method,
                       .path = request_.target.raw,
                       .engine = {},
                       .trace = trace,
                       .ended = RequestEndName(end),
                       .status = status_,
                       .start = {},
                       .end = {},
                       .bytes_in = bytes_in_,
                       .bytes_out = bytes_out_,
                       .seconds = SecondsSince(begun_),
                       .first_byte_seconds = {}};
  if (first_byte_) entry.first_byte_seconds = std::chrono::duration<double>(*first_byte_ - begun_).count();
  Describe(entry);
  hall_.log().Write(entry);
}

}  // namespace skerry
