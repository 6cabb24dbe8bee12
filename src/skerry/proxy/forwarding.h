// One request on its way to an engine and back.
//
//   head → constraint of the headers → [whole body → constraint of the body] → admission → [held] → engine → answer
//
// A body that may carry a constraint is read whole before admission; any other is passed on as it comes.
#ifndef SKERRY_PROXY_FORWARDING_H_
#define SKERRY_PROXY_FORWARDING_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/http/exchange.h"
#include "skerry/http/server.h"
#include "skerry/http/upstream.h"
#include "skerry/proxy/admission.h"
#include "skerry/proxy/answer_to_client.h"
#include "skerry/proxy/proxy.h"
#include "skerry/proxy/routes.h"

namespace skerry {

class Forwarding : public Exchange, public UpstreamCall::Listener, public std::enable_shared_from_this<Forwarding> {
 public:
  using Clock = std::chrono::steady_clock;
  // What an engine could not send before a switch comes within this time once the client takes more again.
  static constexpr std::chrono::seconds kSettling{1};

  Forwarding(Proxy& proxy, ServerRequest head, const RequestFraming& framing, ClientPort& port);
  ~Forwarding() override;

  void Begin(uint64_t& max_body);
  // Held: something has changed, or the time is over.
  void Retry();
  // The engine's weights are not what this request was promised: it ends here.
  void CutOff(std::string_view why);
  // Its engine serves another version from here on. What has come of the answer and was not taken from the connection
  // can't be told apart.
  void OnFlip();

  size_t engine() const { return admitted_->engine; }
  bool is_exact() const { return constraint_.exact.has_value(); }
  // Bytes of the answer that the engine sent and this has not looked at, though it would.
  bool HasUnread();
  Clock::time_point deadline() const { return deadline_; }

  // Exchange
  void OnBody(std::string_view piece) override;
  void OnBodyEnd() override;
  void OnBodyRefused(int status, std::string_view why) override;
  void OnDrained() override;
  void OnGone() override;
  void OnClientEnd() override { OnGone(); }

  // UpstreamCall::Listener
  void OnAnswerHead(AnswerHead head) override;
  void OnAnswerBody(std::string_view piece) override;
  void OnAnswerPause() override { SendGathered(); }
  void OnAnswerEnd() override;
  void OnCallFailed(UpstreamFailure kind, const std::string& why) override;
  void OnCallDrained() override;

 private:
  void TakeBodyConstraint();
  void Admit();
  void Hold();
  void Unhold();
  void Start(Admission::Admitted admitted);
  void SendRequest(bool fresh);
  std::string RequestHead(std::optional<uint64_t> length) const;
  std::optional<Version> LiveVersion() const;

  void SendGathered();
  void Refuse(const Admission::Refused& refused);
  void Fail(int status, std::string_view type, std::string_view message, bool retry);
  void Answer(const ServerResponse& response, RequestEnd end);
  // Gives up what the request holds.
  void LetGo();
  void LetBodyGo();
  void Close(RequestEnd end);
  // In the metrics and the access log.
  void Record(RequestEnd end);

  Proxy& proxy_;
  ServerRequest request_;
  const RequestFraming framing_;
  ClientPort* port_;  // nullptr: the client's side is done
  RouteFacts route_;
  VersionConstraint constraint_;

  bool whole_body_ = false;  // is read before admission
  std::string body_;
  uint64_t kept_ = 0;  // bytes counted for it
  bool body_ended_ = false, body_refused_ = false;
  bool held_ = false, retried_ = false;
  Clock::time_point begun_ = Clock::now(), deadline_ = Clock::time_point::max();

  std::optional<Admission::Admitted> admitted_;
  std::shared_ptr<UpstreamCall> call_;  // until its answer is complete
  std::optional<AnswerToClient> answer_;
  std::string gathered_;  // of the answer, to be sent together
  bool blocked_ = false;  // the client takes too little: the answer waits at the engine
  bool unsure_ = false;   // which version made what comes; after kSettling it is the live one
  Clock::time_point sure_after_ = Clock::time_point::max();
  uint64_t bytes_in_ = 0, bytes_out_ = 0;
  int status_ = 0;
  std::optional<Clock::time_point> first_byte_;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_FORWARDING_H_
