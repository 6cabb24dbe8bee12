// Inside http: one connection to a server, which serves call after call.
#ifndef SKERRY_HTTP_UPSTREAM_CONNECTION_H_
#define SKERRY_HTTP_UPSTREAM_CONNECTION_H_

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>

#include "skerry/http/event_socket.h"
#include "skerry/http/incoming_answer.h"
#include "skerry/http/upstream_pool.h"

namespace skerry {

class UpstreamConnection : public EventSocket, public UpstreamCall {
 public:
  UpstreamConnection(LoopSocket socket, Upstream::Pool& pool);

  void Connect();
  void BeginCall(Listener& listener, bool to_head);
  void CloseIdle();
  void CheckTimes(Clock::time_point now);
  bool IsIdleSince(Clock::time_point time) const { return since_ < time; }

  // UpstreamCall
  void Send(std::string_view bytes) override;
  size_t unsent() const override { return EventSocket::unsent() + waiting_.size(); }
  void WantAnswer(bool want) override;
  size_t Untold() override;
  bool MayNotHaveArrived() const override { return reused_ && !answered_; }
  void Cancel() override;

 private:
  void OnBytes(std::string_view bytes) override;
  void OnEnd(bool orderly) override;
  void OnDrained() override;

  void Resolved(const boost::asio::ip::tcp::resolver::results_type& ends);
  void Connected();
  // Of `bytes`; what is left over is kept.
  void Take(std::string_view bytes);
  bool TakeStep(std::string_view bytes, size_t& done);
  void Fail(UpstreamFailure kind, std::string_view why);
  void Complete();
  void Close();
  std::shared_ptr<UpstreamConnection> Self();

  std::weak_ptr<Upstream::Pool> pool_;
  const UpstreamOptions& options_;
  Listener* listener_ = nullptr;  // of the call that is under way
  std::optional<IncomingAnswer> incoming_;
  std::string waiting_;   // to be sent once connected
  std::string received_;  // of the answer, not told yet
  bool connected_ = false, closed_ = false, reused_ = false, answered_ = false;
  bool wanted_ = true, taking_ = false, ended_ = false;
  Clock::time_point since_ = Clock::now();  // something came or went
};

}  // namespace skerry

#endif  // SKERRY_HTTP_UPSTREAM_CONNECTION_H_
