// Inside http: TLS of a server's connections (1.2 and 1.3), over bytes that somebody else carries.
#ifndef SKERRY_HTTP_TLS_H_
#define SKERRY_HTTP_TLS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/http/server.h"

struct ssl_ctx_st;
struct ssl_st;

namespace skerry {

// A server's certificate and key.
class TlsIdentity {
 public:
  // Errors name the file.
  static Result<std::shared_ptr<const TlsIdentity>> Load(const TlsFiles& files);

  ssl_ctx_st* context() const { return context_.get(); }

 private:
  TlsIdentity();
  std::shared_ptr<ssl_ctx_st> context_;
};

// The newest identity that the files have had: certificates are renewed while servers run. By one thread.
class TlsIdentities {
 public:
  static Result<std::unique_ptr<TlsIdentities>> Load(const TlsFiles& files);
  // Reads the files again where they have changed; one that is wrong leaves what was there, and a warning in the log.
  const TlsIdentity& Current();

 private:
  explicit TlsIdentities(TlsFiles files) : files_(std::move(files)) {}
  const TlsFiles files_;
  std::string mark_;  // of the files that were read last
  std::shared_ptr<const TlsIdentity> identity_;
};

// One connection. Not thread-safe.
class TlsSession {
 public:
  explicit TlsSession(const TlsIdentity& identity);

  // Bytes came from the client: what they say, until the next call. nullopt: they are wrong, the connection is to end
  // once Outgoing() was sent.
  std::optional<std::string_view> Receive(std::string_view bytes);
  // To be sent once the client has begun to speak.
  void Send(std::string_view text);
  // Tells the client that nothing more comes.
  void End();
  // What is to go to the client; each byte once.
  std::string Outgoing();
  // The client has said that nothing more comes.
  bool ended() const { return ended_; }

 private:
  std::shared_ptr<ssl_st> ssl_;
  std::string text_;
  bool ended_ = false;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_TLS_H_
