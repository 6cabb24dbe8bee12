#include "skerry/gateway/inquiry.h"

#include <fmt/format.h>

#include <utility>

#include "skerry/http/listen_address.h"

namespace skerry {

void Inquiry::Begin() {
  const UpstreamOptions& address = island_->asking->options();
  call_ = island_->asking->Call(*this, /*to_head=*/false, /*fresh=*/false);
  call_->Send(fmt::format("GET /v1/skerry/island HTTP/1.1\r\nHost: {}\r\n\r\n",
                          ListenAddress{.host = address.host, .port = address.port}.ToString()));
}

void Inquiry::Cancel() {
  if (call_) std::exchange(call_, nullptr)->Cancel();
}

void Inquiry::OnAnswerBody(std::string_view piece) {
  if (body_.size() <= kMostReportBytes) body_ += piece;  // one that is longer is refused as such
}

void Inquiry::OnAnswerEnd() {
  const auto self = shared_from_this();
  call_.reset();
  if (status_ != 200) {
    Fail(fmt::format("status {} instead of a report", status_));
  } else if (auto report = ParseIslandReport(body_); !report) {
    Fail(report.error().message);
  } else {
    report->url = island_->url;
    (void)gateway_.TakeReport(*std::move(report));
  }
  gateway_.Done(this);
}

void Inquiry::OnCallFailed(UpstreamFailure /*kind*/, const std::string& why) {
  const auto self = shared_from_this();
  const bool again = call_->MayNotHaveArrived();
  call_.reset();
  if (!again) Fail(why);
  gateway_.Done(this);
}

void Inquiry::Fail(const std::string& why) { gateway_.fleet().Failed(*island_, why, std::chrono::steady_clock::now()); }

}  // namespace skerry
