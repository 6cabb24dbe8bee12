// One request on its way to an engine of the island and back: admitted at a version, stamped with those that made the
// answer.
#ifndef SKERRY_PROXY_FORWARDING_H_
#define SKERRY_PROXY_FORWARDING_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/proxy/admission.h"
#include "skerry/proxy/answer_to_client.h"
#include "skerry/proxy/passage.h"
#include "skerry/proxy/proxy.h"

namespace skerry {

class Forwarding : public Passage {
 public:
  // What an engine could not send before a switch comes within this time once the client takes more again.
  static constexpr std::chrono::seconds kSettling{1};

  Forwarding(Proxy& proxy, ServerRequest head, const RequestFraming& framing, ClientPort& port);
  ~Forwarding() override;

  // The engine's weights are not what this request was promised: it ends here.
  void CutOff(std::string_view why);
  // Its engine serves another version from here on. What has come of the answer and was not taken from the connection
  // can't be told apart.
  void OnFlip();

  size_t engine() const { return admitted_->engine; }
  bool is_exact() const { return constraint_.exact.has_value(); }
  // Bytes of the answer that the engine sent and this has not looked at, though it would.
  bool HasUnread();

  // UpstreamCall::Listener
  void OnAnswerHead(AnswerHead head) override;
  void OnAnswerBody(std::string_view piece) override;
  void OnAnswerEnd() override;

 private:
  // Decides, and hands the request to the engine in the same step.
  void Choose() override;
  Upstream& Server() override { return proxy_.upstream(admitted_->engine); }
  bool AnswerBegun() const override { return answer_ && answer_->begun(); }
  void OnFailed(UpstreamFailure kind, const std::string& why) override;
  void OnUnblocked() override;
  void Leave() override;
  void Describe(AccessLogEntry& entry) const override;

  void Start(Admission::Admitted admitted);
  std::optional<Version> LiveVersion() const;

  Proxy& proxy_;
  std::optional<Admission::Admitted> admitted_;
  std::optional<AnswerToClient> answer_;
  bool unsure_ = false;  // which version made what comes; after kSettling it is the live one
  Clock::time_point sure_after_ = Clock::time_point::max();
};

}  // namespace skerry

#endif  // SKERRY_PROXY_FORWARDING_H_
