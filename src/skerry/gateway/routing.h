// One request on its way to an island and back. An answer that says no, or can't be trusted, is set aside, and the
// request goes to another island, as long as nothing has gone to the client and the request is still here as a whole.
#ifndef SKERRY_GATEWAY_ROUTING_H_
#define SKERRY_GATEWAY_ROUTING_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/gateway/answer_tokens.h"
#include "skerry/gateway/fleet.h"
#include "skerry/metrics/gateway_metrics.h"
#include "skerry/proxy/framed_answer.h"
#include "skerry/proxy/passage.h"

namespace skerry {

class Gateway;

class Routing : public Passage {
 public:
  static constexpr size_t kMostAttempts = 6;  // islands that one request is sent to, until it is held again
  // A held request that islands have refused is tried again after this.
  static constexpr std::chrono::milliseconds kAgain{250};
  // Of a route whose bodies have no constraint: bodies up to this are kept, so that they can be sent again.
  static constexpr uint64_t kSmallBody = 1 << 20;

  Routing(Gateway& gateway, ServerRequest head, const RequestFraming& framing, ClientPort& port);
  ~Routing() override;

  const Island* island() const { return island_.get(); }
  // Its island has not been heard of for so long that nothing more is expected of it.
  void Lost();

  // UpstreamCall::Listener
  void OnAnswerHead(AnswerHead head) override;
  void OnAnswerBody(std::string_view piece) override;
  void OnAnswerEnd() override;

 private:
  void Choose() override;
  Upstream& Server() override { return *island_->link; }
  bool WantsWholeBody() const override { return framing_.length && *framing_.length <= kSmallBody; }
  void LookAtBody(const std::vector<JsonMember>* members) override;
  void AddToRequest(std::string& head) const override;
  bool AnswerBegun() const override { return framed_.begun(); }
  void OnFailed(UpstreamFailure kind, const std::string& why) override;
  void Leave() override;
  void Describe(AccessLogEntry& entry) const override;

  // A refusal, kept for the case that all islands refuse.
  struct SetAside {
    AnswerHead head;
    std::string body;
  };

  void Start(std::shared_ptr<Island> island);
  // To another island, if there is one.
  void GoOn(RetryCause cause);
  void GiveUp(const Admission::Refused& refused);
  // The answer goes to the client from here on.
  void PassOn(const AnswerHead& head);
  // Why the answer must not reach the client; empty: it may.
  std::string WhatIsWrongWith(const AnswerHead& head) const;
  bool MayGoOn() const;
  void LearnFromRefusal();

  Gateway& gateway_;
  std::optional<uint64_t> session_;
  std::string region_;

  std::shared_ptr<Island> island_;
  std::vector<const Island*> tried_;
  bool waiting_ = false;           // held
  bool said_not_ready_ = false;    // an island answered 409
  std::string unreachable_;        // why the last one could not be reached
  std::optional<SetAside> aside_;  // is coming in, or was the last to come in
  bool setting_aside_ = false;

  FramedAnswer framed_;
  std::optional<AnswerTokens> tokens_;
  std::optional<Version> start_;  // of the answer
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_ROUTING_H_
