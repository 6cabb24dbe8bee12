#include "skerry/proxy/forwarding.h"

#include <fmt/format.h>

#include <utility>

#include "skerry/http/response_head.h"
#include "skerry/proxy/cache_salt.h"
#include "skerry/proxy/json_members.h"
#include "skerry/proxy/own_answer.h"
#include "skerry/proxy/passed_headers.h"

namespace skerry {
namespace {

constexpr std::string_view kMember = "weight_version";
// Bytes of an answer that are sent together, if they are there.
constexpr size_t kGathered = 16 << 10;

double SecondsSince(Forwarding::Clock::time_point time) {
  return std::chrono::duration<double>(Forwarding::Clock::now() - time).count();
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

Forwarding::Forwarding(Proxy& proxy, ServerRequest head, const RequestFraming& framing, ClientPort& port)
    : proxy_(proxy),
      request_(std::move(head)),
      framing_(framing),
      port_(&port),
      route_(FactsOf(request_.method, request_.path())) {}

Forwarding::~Forwarding() { LetGo(); }

void Forwarding::Begin(uint64_t& max_body) {
  max_body = proxy_.options().max_body;
  if (request_.target.raw.empty() || request_.target.raw.front() != '/') {
    if (request_.target.raw != "*") return Fail(400, "invalid", "the request's target is no path", /*retry=*/false);
  }
  if (route_.is_control) {
    return Fail(403, "forbidden",
                fmt::format("{} acts on the engine itself: only its agent may call it", request_.path()),
                /*retry=*/false);
  }
  if (proxy_.stopping()) return Fail(503, "NoEngineInRotation", "the agent is being stopped", /*retry=*/true);
  auto constraint = ParseVersionConstraint(request_.headers, "");
  if (!constraint) return Fail(400, "invalid", constraint.error().message, /*retry=*/false);
  constraint_ = *constraint;
  if (framing_.length.value_or(0) > max_body) {
    return Fail(413, "invalid", fmt::format("the body is longer than {} bytes", max_body), /*retry=*/false);
  }
  whole_body_ = route_.is_generation && framing_.has_body();
  if (!whole_body_) Admit();
}

void Forwarding::OnBody(std::string_view piece) {
  bytes_in_ += piece.size();
  if (port_ == nullptr || body_refused_) return;
  if (whole_body_ && !admitted_) {
    if (!proxy_.Keep(piece.size())) {
      return Fail(503, "TooManyRequests", "too much is kept for other requests", /*retry=*/true);
    }
    kept_ += piece.size();
    body_ += piece;
    return;
  }
  if (!call_) return;  // the engine has answered without waiting for all of it
  if (framing_.chunked_body) {
    call_->Send(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
  } else {
    call_->Send(piece);
  }
  if (call_->unsent() > Proxy::kMaxUnsent) port_->WantBody(false);
}

void Forwarding::OnBodyEnd() {
  body_ended_ = true;
  if (port_ == nullptr) return;
  if (whole_body_ && !admitted_) return TakeBodyConstraint();
  if (call_ && framing_.chunked_body) call_->Send("0\r\n\r\n");
}

void Forwarding::OnBodyRefused(int status, std::string_view why) {
  body_refused_ = true;
  if (answer_ && answer_->begun()) {
    Close(RequestEnd::kClientGone);
    return;
  }
  Fail(status, "invalid", why, /*retry=*/false);
}

void Forwarding::TakeBodyConstraint() {
  const auto members = FindMembers(body_);
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
  if (present) {
    auto constraint = ParseVersionConstraint(request_.headers, given);
    if (!constraint) return Fail(400, "invalid", constraint.error().message, /*retry=*/false);
    constraint_ = *constraint;
    body_ = WithoutMembers(body_, *members, kMember);
  }
  Admit();
}

// Decides, and hands the request to the engine in the same step.
void Forwarding::Admit() {
  const auto decision = proxy_.admission().Decide(constraint_);
  if (const auto* admitted = std::get_if<Admission::Admitted>(&decision)) return Start(*admitted);
  const auto now = Clock::now();
  if (const auto* refused = std::get_if<Admission::Refused>(&decision)) {
    if (refused->not_ready && refused->worth_waiting) proxy_.Wake();
    const bool waits = constraint_.wait && refused->worth_waiting && !proxy_.stopping();
    if (!waits || begun_ + *constraint_.wait <= now) return Refuse(*refused);
    deadline_ = begun_ + *constraint_.wait;
  } else {
    deadline_ =
        begun_ + (constraint_.wait ? *constraint_.wait
                                   : std::chrono::duration_cast<std::chrono::milliseconds>(Proxy::kSwitchPatience));
    if (proxy_.stopping() || deadline_ <= now) {
      return Fail(503, "NoEngineInRotation", "the engines are being switched", /*retry=*/true);
    }
  }
  Hold();
}

void Forwarding::Hold() {
  if (held_) return;
  if (!proxy_.Hold(shared_from_this())) {
    return Fail(503, "TooManyRequests", fmt::format("{} requests are held already", Proxy::kMaxHeld), /*retry=*/true);
  }
  held_ = true;
  // A body that is passed on as it comes waits where it is.
  if (!whole_body_) port_->WantBody(false);
}

void Forwarding::Unhold() {
  if (!std::exchange(held_, false)) return;
  proxy_.metrics().WasHeld(SecondsSince(begun_));
  proxy_.NoLongerHeld(shared_from_this());
}

void Forwarding::Retry() {
  const auto self = shared_from_this();
  if (held_) Admit();
}

void Forwarding::Start(Admission::Admitted admitted) {
  Unhold();
  admitted_ = std::move(admitted);
  unsure_ = false;
  proxy_.AddRunning(this);
  const Admission::EngineState& engine = proxy_.admission().engines()[admitted_->engine];
  if (proxy_.options().namespaces && admitted_->live.version && whole_body_) {
    const SaltMember member = SaltMemberOf(engine.kind, request_.path());
    if (member != SaltMember::kNone) {
      body_ = WithCacheSalt(body_, member,
                            CacheLabel(admitted_->live.run, *admitted_->live.version, proxy_.stay(admitted_->engine)));
    }
  }
  SendRequest(/*fresh=*/false);
}

std::string Forwarding::RequestHead(std::optional<uint64_t> length) const {
  std::string head = fmt::format("{} {} HTTP/1.1\r\n", request_.method, request_.target.raw);
  AppendPassedHeaders(request_.headers, head);
  if (request_.headers.FindValue("Host") == nullptr) {  // HTTP/1.0 may go without, HTTP/1.1 may not
    const UpstreamOptions& engine = *proxy_.options().engines[admitted_->engine].address;
    head += fmt::format("Host: {}\r\n", ListenAddress{.host = engine.host, .port = engine.port}.ToString());
  }
  if (length) {
    head += fmt::format("Content-Length: {}\r\n", *length);
  } else if (framing_.chunked_body) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  head += "\r\n";
  return head;
}

void Forwarding::SendRequest(bool fresh) {
  call_ = proxy_.upstream(admitted_->engine).Call(*this, request_.method == "HEAD", fresh);
  std::string bytes = RequestHead(whole_body_ ? std::optional<uint64_t>(body_.size()) : framing_.length);
  if (whole_body_) bytes += body_;
  call_->Send(bytes);
  if (!whole_body_ && !body_ended_) port_->WantBody(true);
}

std::optional<Version> Forwarding::LiveVersion() const {
  const auto& live = proxy_.admission().engines()[admitted_->engine].live;
  const bool known = live && (!unsure_ || Clock::now() > sure_after_);
  return known ? live->version : std::nullopt;
}

bool Forwarding::HasUnread() { return call_ && !blocked_ && call_->Untold() > 0; }

void Forwarding::OnFlip() {
  const auto now = Clock::now();
  // Unread: it could not be told in the time that a flip has.
  const bool unread = HasUnread();
  unsure_ = blocked_ || unread || (unsure_ && now <= sure_after_);
  if (blocked_) sure_after_ = Clock::time_point::max();
  if (unread) sure_after_ = now + kSettling;
}

void Forwarding::OnAnswerHead(AnswerHead head) {
  LetBodyGo();  // it is not sent again from here on
  status_ = head.status;
  first_byte_ = Clock::now();
  proxy_.metrics().FirstByte(SecondsSince(begun_));
  answer_.emplace(std::move(head), framing_, admitted_->live, route_.is_generation);
  answer_->Begin(gathered_);
}

void Forwarding::OnAnswerBody(std::string_view piece) {
  answer_->Pass(piece, LiveVersion(), gathered_);
  bytes_out_ += piece.size();
  if (gathered_.size() >= kGathered) SendGathered();
}

void Forwarding::SendGathered() {
  if (gathered_.empty()) return;
  port_->Write(gathered_);
  gathered_.clear();
  if (gathered_.capacity() > kGathered) std::string().swap(gathered_);
  if (!call_ || port_->unsent() <= Proxy::kMaxUnsent) return;
  blocked_ = true;
  call_->WantAnswer(false);
}

void Forwarding::OnDrained() {
  if (!call_ || !std::exchange(blocked_, false)) return;
  if (unsure_) sure_after_ = Clock::now() + kSettling;
  call_->WantAnswer(true);
}

void Forwarding::OnCallDrained() {
  if (port_ != nullptr && !whole_body_) port_->WantBody(true);
}

void Forwarding::OnAnswerEnd() {
  const auto self = shared_from_this();
  call_.reset();
  answer_->Finish(LiveVersion(), gathered_);
  SendGathered();
  Record(RequestEnd::kComplete);
  const bool keep = answer_->keeps();
  LetGo();
  std::exchange(port_, nullptr)->Finish(keep);
}

void Forwarding::OnCallFailed(UpstreamFailure kind, const std::string& why) {
  const auto self = shared_from_this();
  const bool again = call_->MayNotHaveArrived() && !retried_ && (whole_body_ || !framing_.has_body());
  call_.reset();
  if (again && !answer_) {
    retried_ = true;
    return SendRequest(/*fresh=*/true);
  }
  if (answer_ && answer_->begun()) {
    Close(RequestEnd::kEngineBrokeOff);
    return;
  }
  LetGo();
  // The agent looks at its engines, and takes one that is gone out of rotation.
  if (kind == UpstreamFailure::kUnreachable) proxy_.Wake();
  const bool silent = kind == UpstreamFailure::kSilent;
  Answer(ErrorAnswer(silent ? 504 : 503, silent ? "EngineTimeout" : "EngineUnreachable", why, /*retry=*/true),
         kind == UpstreamFailure::kUnreachable ? RequestEnd::kNoEngine : RequestEnd::kEngineBrokeOff);
}

void Forwarding::CutOff(std::string_view why) {
  const auto self = shared_from_this();
  if (port_ == nullptr) return;
  if (answer_ && answer_->begun()) {
    Close(RequestEnd::kCutOff);
    return;
  }
  LetGo();
  Answer(ErrorAnswer(503, "CutOffBySwitch", why, /*retry=*/true), RequestEnd::kCutOff);
}

void Forwarding::OnGone() {
  const auto self = shared_from_this();
  if (port_ == nullptr) return;
  Close(RequestEnd::kClientGone);
}

void Forwarding::Close(RequestEnd end) {
  const auto self = shared_from_this();
  Record(end);
  LetGo();
  std::exchange(port_, nullptr)->Abort();
}

void Forwarding::LetGo() {
  if (call_) std::exchange(call_, nullptr)->Cancel();
  if (admitted_) {
    proxy_.RemoveRunning(this);
    proxy_.admission().Ended(admitted_->engine, is_exact());
    admitted_.reset();
  }
  if (std::exchange(held_, false)) proxy_.NoLongerHeld(shared_from_this());
  LetBodyGo();
}

void Forwarding::LetBodyGo() {
  proxy_.Release(std::exchange(kept_, 0));
  std::string().swap(body_);
}

void Forwarding::Refuse(const Admission::Refused& refused) {
  if (!refused.not_ready) return Fail(503, "NoEngineInRotation", "no engine is in rotation", /*retry=*/true);
  Answer(NotReadyAnswer(refused, constraint_), RequestEnd::kNotReady);
}

void Forwarding::Fail(int status, std::string_view type, std::string_view message, bool retry) {
  Answer(ErrorAnswer(status, type, message, retry), status >= 500 ? RequestEnd::kNoEngine : RequestEnd::kRefused);
}

void Forwarding::Answer(const ServerResponse& response, RequestEnd end) {
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

void Forwarding::Record(RequestEnd end) {
  proxy_.metrics().Ended(end, SecondsSince(begun_), bytes_in_, bytes_out_);
  if (!proxy_.log().enabled()) return;
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
  if (admitted_) {
    entry.engine = proxy_.admission().engines()[admitted_->engine].name;
    entry.start = admitted_->live;
    entry.end = LiveVersion();
  }
  proxy_.log().Write(entry);
}

}  // namespace skerry
