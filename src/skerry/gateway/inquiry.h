// A listed island is asked for its report.
#ifndef SKERRY_GATEWAY_INQUIRY_H_
#define SKERRY_GATEWAY_INQUIRY_H_

#include <memory>
#include <string>
#include <string_view>

#include "skerry/gateway/gateway.h"

namespace skerry {

// One question, on the loop. It tells the gateway what comes of it, and then that it is done.
class Inquiry : public UpstreamCall::Listener, public std::enable_shared_from_this<Inquiry> {
 public:
  Inquiry(Gateway& gateway, std::shared_ptr<Island> island) : gateway_(gateway), island_(std::move(island)) {}

  void Begin();
  void Cancel();
  const Island* island() const { return island_.get(); }

  void OnAnswerHead(AnswerHead head) override { status_ = head.status; }
  void OnAnswerBody(std::string_view piece) override;
  void OnAnswerPause() override {}
  void OnAnswerEnd() override;
  void OnCallFailed(UpstreamFailure kind, const std::string& why) override;
  void OnCallDrained() override {}

 private:
  void Fail(const std::string& why);

  Gateway& gateway_;
  const std::shared_ptr<Island> island_;
  std::shared_ptr<UpstreamCall> call_;
  int status_ = 0;
  std::string body_;
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_INQUIRY_H_
