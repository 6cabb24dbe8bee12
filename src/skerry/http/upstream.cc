#include "skerry/http/upstream.h"

#include <charconv>
#include <utility>

#include "skerry/http/upstream_connection.h"
#include "skerry/http/upstream_pool.h"

namespace skerry {

namespace {

constexpr std::chrono::milliseconds kLook{250};

}  // namespace

Result<UpstreamOptions> ParseUpstreamUrl(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const auto refuse = [&](std::string_view why) -> Result<UpstreamOptions> {
    const size_t user = url.rfind('@');
    return Fail(Code::kInvalid, "requests can't be forwarded to {}: {}",
                user == std::string::npos ? url : kScheme.data() + url.substr(user + 1), why);
  };
  if (url.rfind("https://", 0) == 0) return refuse("only http:// is spoken with engines");
  if (url.rfind(kScheme, 0) != 0) return refuse("it does not begin with http://");
  std::string rest = url.substr(kScheme.size());
  rest.erase(std::min(rest.find('?'), rest.size()));
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  if (const size_t user = rest.rfind('@'); user != std::string::npos) rest.erase(0, user + 1);
  if (rest.find_first_of("/#") != std::string::npos) return refuse("it has a path");
  UpstreamOptions options;
  const size_t bracket = rest.rfind(']');
  const size_t colon = rest.rfind(':');
  options.host = rest.substr(0, colon);
  if (colon == std::string::npos || (bracket != std::string::npos && colon < bracket)) {
    options.host = rest;
  } else {
    const std::string digits = rest.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), options.port);
    if (error != std::errc() || end != digits.data() + digits.size() || options.port == 0) {
      return refuse("its port is no number from 1 to 65535");
    }
  }
  if (options.host.size() > 1 && options.host.front() == '[' && options.host.back() == ']') {
    options.host = options.host.substr(1, options.host.size() - 2);
  }
  if (options.host.empty()) return refuse("it names no host");
  return options;
}

std::shared_ptr<UpstreamCall> Upstream::Pool::Call(UpstreamCall::Listener& listener, bool to_head, bool fresh) {
  std::shared_ptr<UpstreamConnection> connection;
  const auto oldest = EventSocket::Clock::now() - options.idle_timeout;
  // What came unasked must not be taken for the answer to this call.
  while (!idle_.empty() && idle_.back()->Untold() > 0) idle_.back()->CloseIdle();
  if (!fresh && !idle_.empty() && !idle_.back()->IsIdleSince(oldest)) {
    connection = std::move(idle_.back());
    idle_.pop_back();
    connection->BeginCall(listener, to_head);
  } else {
    connection = std::make_shared<UpstreamConnection>(LoopSocket(io_.get_executor()), *this);
    connection->BeginCall(listener, to_head);
    connection->Connect();
  }
  busy_.insert(connection);
  return connection;
}

void Upstream::Pool::Keep(std::shared_ptr<UpstreamConnection> connection) {
  busy_.erase(connection);
  if (idle_.size() >= options.max_idle) return connection->CloseIdle();
  idle_.push_back(std::move(connection));
}

void Upstream::Pool::Forget(const std::shared_ptr<UpstreamConnection>& connection) {
  busy_.erase(connection);
  std::erase(idle_, connection);
}

void Upstream::Pool::CheckTimes() {
  const auto now = EventSocket::Clock::now();
  const auto oldest = now - options.idle_timeout;
  while (!idle_.empty() && idle_.front()->IsIdleSince(oldest)) idle_.front()->CloseIdle();
  const std::vector<std::shared_ptr<UpstreamConnection>> busy(busy_.begin(), busy_.end());
  for (const auto& connection : busy) connection->CheckTimes(now);
}

void Upstream::Pool::CloseAll() {
  while (!idle_.empty()) idle_.back()->CloseIdle();
  while (!busy_.empty()) (*busy_.begin())->Cancel();
}

Upstream::Upstream(EventLoop& loop, UpstreamOptions options)
    : loop_(loop), pool_(std::make_shared<Pool>(loop, std::move(options))) {
  look_ = loop_.Every(kLook, [pool = pool_] { pool->CheckTimes(); });
}

Upstream::~Upstream() {
  look_.reset();
  if (loop_.IsThisThread()) {
    pool_->CloseAll();
  } else {
    loop_.Do([this] { pool_->CloseAll(); });
  }
}

const UpstreamOptions& Upstream::options() const { return pool_->options; }

std::shared_ptr<UpstreamCall> Upstream::Call(UpstreamCall::Listener& listener, bool to_head, bool fresh) {
  return pool_->Call(listener, to_head, fresh);
}

size_t Upstream::idle() const { return pool_->idle(); }

}  // namespace skerry
