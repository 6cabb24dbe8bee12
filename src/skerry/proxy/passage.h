// One request on its way to a server and the answer on its way back, as far as it does not depend on who the server is:
// the agent's engines (forwarding.h), or a gateway's islands.
//
//   head → constraint of the headers → [whole body → constraint of the body] → Choose() → [held] → server → answer
//
// A body that may carry a constraint is read whole before a server is chosen; any other is passed on as it comes.
#ifndef SKERRY_PROXY_PASSAGE_H_
#define SKERRY_PROXY_PASSAGE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/http/exchange.h"
#include "skerry/http/server.h"
#include "skerry/http/upstream.h"
#include "skerry/proxy/admission.h"
#include "skerry/proxy/hall.h"
#include "skerry/proxy/json_members.h"
#include "skerry/proxy/routes.h"
#include "skerry/proxy/version_constraint.h"

namespace skerry {

class Passage : public Exchange, public UpstreamCall::Listener, public std::enable_shared_from_this<Passage> {
 public:
  using Clock = std::chrono::steady_clock;
  // What may wait for a client, or for a server, before the other side is left unread.
  static constexpr size_t kMaxUnsent = 256 << 10;

  Passage(Hall& hall, ServerRequest head, const RequestFraming& framing, ClientPort& port);

  void Begin(uint64_t& max_body);
  // Held: something has changed, or the time is over.
  void Retry();
  Clock::time_point deadline() const { return deadline_; }
  const VersionConstraint& constraint() const { return constraint_; }

  // Exchange
  void OnBody(std::string_view piece) final;
  void OnBodyEnd() final;
  void OnBodyRefused(int status, std::string_view why) final;
  void OnDrained() final;
  void OnGone() final;
  void OnClientEnd() final { OnGone(); }

  // UpstreamCall::Listener; the rest of it is the derived class's.
  void OnAnswerPause() final { SendGathered(); }
  void OnCallFailed(UpstreamFailure kind, const std::string& why) final;
  void OnCallDrained() final;

 protected:
  // What the derived class decides

  // Finds a server and calls Start, or Hold, or answers. Called again by Retry while held.
  virtual void Choose() = 0;
  // Of the server that was chosen.
  virtual Upstream& Server() = 0;
  // Whether the body is read whole before Choose, beyond those that may carry a constraint.
  virtual bool WantsWholeBody() const { return false; }
  // A whole body with its members, once its constraint was taken out of it; nullptr: it is no JSON object.
  virtual void LookAtBody(const std::vector<JsonMember>* /*members*/) {}
  // Appends header lines to the head of the request that goes to the server.
  virtual void AddToRequest(std::string& /*head*/) const {}
  // Something of the answer has gone to the client.
  virtual bool AnswerBegun() const = 0;
  // No (further) answer comes, and nothing of it has gone to the client.
  virtual void OnFailed(UpstreamFailure kind, const std::string& why) = 0;
  // The client takes more again, and the answer is about to be wanted.
  virtual void OnUnblocked() {}
  // Gives up the server, if it was chosen.
  virtual void Leave() = 0;
  // Fills in what this knows of the request: server, versions.
  virtual void Describe(AccessLogEntry& entry) const = 0;

  // What it does with

  void Hold(Clock::time_point deadline);
  void Unhold();
  // To Server(), with the body or the part of it that has come.
  void SendRequest(bool fresh);
  // The request can be sent again: what there is of its body is still here.
  bool CanSendAgain() const { return whole_body_ || !framing_.has_body(); }

  // What was gathered goes to the client where it is much; SendGathered: now.
  void Gathered();
  void SendGathered();
  // The answer has ended: the rest of it goes out. `keep`: its end can be told without closing the connection.
  void Finish(bool keep, RequestEnd end = RequestEnd::kComplete);

  void Refuse(const Admission::Refused& refused);
  void Fail(int status, std::string_view type, std::string_view message, bool retry);
  void Answer(const ServerResponse& response, RequestEnd end);
  // The client sees that the answer is incomplete.
  void Close(RequestEnd end);
  // Gives up what the request holds.
  void LetGo();
  void LetBodyGo();
  // The head of the server's answer is here.
  void NoteAnswer(int status);

  Hall& hall_;
  ServerRequest request_;
  const RequestFraming framing_;
  ClientPort* port_;  // nullptr: the client's side is done
  RouteFacts route_;
  VersionConstraint constraint_;

  bool whole_body_ = false;  // is read before a server is chosen
  std::string body_;
  Clock::time_point begun_ = Clock::now();
  std::shared_ptr<UpstreamCall> call_;  // until its answer is complete
  std::string gathered_;                // of the answer, to be sent together
  bool blocked_ = false;                // the client takes too little: the answer waits at the server
  uint64_t bytes_out_ = 0;

 private:
  void TakeBodyConstraint();
  std::string RequestHead(std::optional<uint64_t> length);
  // In the metrics and the access log.
  void Record(RequestEnd end);

  uint64_t kept_ = 0;  // bytes counted for the body
  bool body_ended_ = false, body_refused_ = false;
  bool held_ = false, resent_ = false;
  Clock::time_point deadline_ = Clock::time_point::max();
  uint64_t bytes_in_ = 0;
  int status_ = 0;
  std::optional<Clock::time_point> first_byte_;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_PASSAGE_H_
