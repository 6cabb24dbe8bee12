#include "skerry/proxy/forwarding.h"

#include <utility>

#include "skerry/proxy/cache_salt.h"
#include "skerry/proxy/own_answer.h"

namespace skerry {

Forwarding::Forwarding(Proxy& proxy, ServerRequest head, const RequestFraming& framing, ClientPort& port)
    : Passage(proxy.hall(), std::move(head), framing, port), proxy_(proxy) {}

Forwarding::~Forwarding() { LetGo(); }

void Forwarding::Choose() {
  const auto decision = proxy_.admission().Decide(constraint_);
  if (const auto* admitted = std::get_if<Admission::Admitted>(&decision)) return Start(*admitted);
  const auto now = Clock::now();
  if (const auto* refused = std::get_if<Admission::Refused>(&decision)) {
    if (refused->not_ready && refused->worth_waiting) proxy_.Wake();
    const bool waits = constraint_.wait && refused->worth_waiting && !hall_.stopping();
    if (!waits || begun_ + *constraint_.wait <= now) return Refuse(*refused);
    return Hold(begun_ + *constraint_.wait);
  }
  const auto deadline =
      begun_ + (constraint_.wait ? *constraint_.wait
                                 : std::chrono::duration_cast<std::chrono::milliseconds>(Proxy::kSwitchPatience));
  if (hall_.stopping() || deadline <= now) {
    return Fail(503, "NoEngineInRotation", "the engines are being switched", /*retry=*/true);
  }
  Hold(deadline);
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

void Forwarding::OnUnblocked() {
  if (unsure_) sure_after_ = Clock::now() + kSettling;
}

void Forwarding::OnAnswerHead(AnswerHead head) {
  LetBodyGo();  // it is not sent again from here on
  NoteAnswer(head.status);
  answer_.emplace(std::move(head), framing_, admitted_->live, route_.is_generation);
  answer_->Begin(gathered_);
}

void Forwarding::OnAnswerBody(std::string_view piece) {
  answer_->Pass(piece, LiveVersion(), gathered_);
  bytes_out_ += piece.size();
  Gathered();
}

void Forwarding::OnAnswerEnd() {
  call_.reset();
  answer_->Finish(LiveVersion(), gathered_);
  Finish(answer_->keeps());
}

void Forwarding::OnFailed(UpstreamFailure kind, const std::string& why) {
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
  if (AnswerBegun()) {
    Close(RequestEnd::kCutOff);
    return;
  }
  LetGo();
  Answer(ErrorAnswer(503, "CutOffBySwitch", why, /*retry=*/true), RequestEnd::kCutOff);
}

void Forwarding::Leave() {
  if (!admitted_) return;
  proxy_.RemoveRunning(this);
  proxy_.admission().Ended(admitted_->engine, is_exact());
  admitted_.reset();
}

void Forwarding::Describe(AccessLogEntry& entry) const {
  if (!admitted_) return;
  entry.engine = proxy_.admission().engines()[admitted_->engine].name;
  entry.start = admitted_->live;
  entry.end = LiveVersion();
}

}  // namespace skerry
