// Inside http: a request that a server's handler answers, on a thread on which it may block.
#ifndef SKERRY_HTTP_HANDLED_EXCHANGE_H_
#define SKERRY_HTTP_HANDLED_EXCHANGE_H_

#include <functional>
#include <memory>
#include <string>

#include "skerry/http/exchange.h"
#include "skerry/http/server.h"
#include "skerry/http/server_connection.h"

namespace skerry {

class HandledExchange : public Exchange, public std::enable_shared_from_this<HandledExchange> {
 public:
  HandledExchange(ServerRequest head, const RequestFraming& framing, std::shared_ptr<ServerConnection> connection,
                  ServerShared& shared);

  void OnBody(std::string_view piece) override { request_.body += piece; }
  void OnBodyEnd() override;
  void OnBodyRefused(int status, std::string_view why) override;
  void OnDrained() override;
  void OnGone() override;

 private:
  class StreamWriter;

  // On the loop
  void Answer(ServerResponse response);
  std::string HeadOf(ServerResponse& response);
  void Tell(bool written);

  // On a handler's thread
  void Run();
  void RunStream(ServerResponse& response);
  bool WriteAndWait(std::string bytes);

  ServerRequest request_;
  const RequestFraming framing_;
  std::shared_ptr<ServerConnection> connection_;  // nullptr once it needs nothing more of this
  ServerShared& shared_;
  bool keep_;
  std::function<void(bool)> written_;  // whoever waits for what was written to leave
};

}  // namespace skerry

#endif  // SKERRY_HTTP_HANDLED_EXCHANGE_H_
