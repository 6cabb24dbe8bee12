#include "skerry/http/incoming_request.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

namespace skerry {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

std::string_view TextOf(boost::beast::string_view text) { return {text.data(), text.size()}; }

size_t CountOf(const HttpHeaders& headers, std::string_view name) {
  size_t count = 0;
  for (const HttpHeaders::Field& field : headers.fields()) count += SameHeaderName(field.name, name) ? 1 : 0;
  return count;
}

}  // namespace

class IncomingRequest::Parser : public http::request_parser<http::string_body> {};

IncomingRequest::IncomingRequest(size_t max_header, uint64_t max_body) : max_header_(max_header), max_body_(max_body) {
  Begin();
}
IncomingRequest::~IncomingRequest() = default;

void IncomingRequest::Begin() {
  parser_ = std::make_unique<Parser>();
  // Beast holds each piece that it parses against its limit; the sum is checked here, with one byte to spare there.
  parser_->header_limit(static_cast<uint32_t>(max_header_ + 1));
  parser_->body_limit(max_body_);
  begun_ = header_read_ = keep_ = chunks_ = false;
  header_bytes_ = 0;
  request_ = {};
  SkipEmptyLines();
}

void IncomingRequest::Append(std::string_view bytes) {
  buffer_.erase(0, std::exchange(done_, 0));
  buffer_ += bytes;
  SkipEmptyLines();
}

// Some clients end a body with a line break too many (RFC 9112, 2.2).
void IncomingRequest::SkipEmptyLines() {
  while (!begun_ && waiting() > 0) {
    begun_ = buffer_[done_] != '\r' && buffer_[done_] != '\n';
    if (!begun_) ++done_;
  }
}

IncomingRequest::Progress IncomingRequest::Refuse(int status, std::string why) {
  refusal_ = {.status = status, .why = std::move(why)};
  return Progress::kRefused;
}

IncomingRequest::Progress IncomingRequest::Parse() {
  while (!parser_->is_done()) {
    if (!begun_ || waiting() == 0) return Progress::kNeedsMore;
    error_code error;
    const size_t used = parser_->put(boost::asio::const_buffer(buffer_.data() + done_, waiting()), error);
    done_ += used;
    if (!header_read_) {
      header_bytes_ += used;
      const size_t unread = parser_->is_header_done() ? 0 : waiting();
      if (error == http::error::header_limit || header_bytes_ + unread > max_header_) {
        return Refuse(431, fmt::format("request line and headers are longer than {} bytes", max_header_));
      }
    }
    if (error == http::error::body_limit || error == http::error::buffer_overflow) {
      return Refuse(413, fmt::format("the body is longer than {} bytes", max_body_));
    }
    if (error && error != http::error::need_more) return Refuse(400, "malformed request: " + error.message());
    if (parser_->is_header_done() && !std::exchange(header_read_, true)) {
      const Progress progress = ReadHeader();
      if (progress != Progress::kComplete) return progress;
    } else if (used == 0) {
      return header_read_ && full() ? Refuse(400, "malformed request: a line of the chunked body is too long")
                                    : Progress::kNeedsMore;
    }
  }
  return Progress::kComplete;
}

// kComplete: the header is acceptable.
IncomingRequest::Progress IncomingRequest::ReadHeader() {
  const auto& message = parser_->get();
  chunks_ = message.version() == 11;
  keep_ = chunks_ && parser_->keep_alive();
  request_.method = TextOf(message.method_string());
  for (const auto& field : message) {
    request_.headers.Add(std::string(TextOf(field.name_string())), std::string(TextOf(field.value())));
  }
  Result<RequestTarget> target = ParseRequestTarget(TextOf(message.target()));
  if (!target) return Refuse(400, target.error().message);
  request_.target = *std::move(target);
  if (const size_t hosts = CountOf(request_.headers, "Host"); hosts > 1 || (chunks_ && hosts == 0)) {
    return Refuse(400, fmt::format("malformed request: {} Host headers", hosts));
  }
  if (const auto coding = request_.Header("Transfer-Encoding")) {
    if (!chunks_) return Refuse(400, "malformed request: Transfer-Encoding in HTTP/1.0");
    if (!SameHeaderName(*coding, "chunked")) return Refuse(501, "no transfer coding but chunked is understood");
  }
  const auto expectation = request_.Header("Expect");
  if (!expectation || !chunks_) return Progress::kComplete;
  if (!SameHeaderName(*expectation, "100-continue")) return Refuse(417, "only 100-continue can be expected");
  return parser_->is_done() || waiting() > 0 ? Progress::kComplete : Progress::kNeedsLeave;
}

ServerRequest IncomingRequest::Take() {
  request_.body = std::move(parser_->get().body());
  ServerRequest taken = std::move(request_);
  Begin();
  return taken;
}

}  // namespace skerry
