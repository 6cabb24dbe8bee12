#include "skerry/http/incoming_request.h"

#include <utility>

#include "skerry/http/beast_parser.h"

namespace skerry {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// A client's longest header is kept; what was larger for a moment is not.
constexpr size_t kKeptRoom = 8 << 10;

bool IsMethodByte(char c) { return c > ' ' && c < 0x7f; }

}  // namespace

class IncomingRequest::Parser : public BeastParser<true> {
 public:
  using BeastParser::BeastParser;
};

IncomingRequest::IncomingRequest(size_t max_header) : max_header_(max_header) { Next(); }
IncomingRequest::~IncomingRequest() = default;

void IncomingRequest::Next() {
  // One byte to spare: what is longer is refused here, with its own words.
  parser_ = std::make_unique<Parser>(max_header_ + 1);
  begun_ = header_read_ = body_begun_ = complete_ = is_head_ = asks_leave_ = false;
  max_body_ = UINT64_MAX;
  framing_ = {};
  head_ = {};
  SkipEmptyLines();
}

void IncomingRequest::Append(std::string_view bytes) {
  buffer_.erase(0, std::exchange(done_, 0));
  if (buffer_.empty() && buffer_.capacity() > kKeptRoom) std::string().swap(buffer_);
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
  if (complete_ || !begun_) return Progress::kNeedsMore;
  return header_read_ ? ParseBody() : ParseHeader();
}

IncomingRequest::Progress IncomingRequest::ParseHeader() {
  const std::string_view bytes = std::string_view(buffer_).substr(done_);
  parser_->header_end.Look(bytes);
  const bool found = parser_->header_end.found();
  if ((found ? parser_->header_end.size() : bytes.size()) > max_header_) {
    return Refuse(431, fmt::format("request line and headers are longer than {} bytes", max_header_));
  }
  if (parser_->header_end.doubtful()) {
    return Refuse(400, "malformed request: a folded line, half a line end or a byte 0 in its header");
  }
  if (!IsMethodByte(bytes.front())) return Refuse(400, "malformed request: it does not begin with a method");
  if (!found) return Progress::kNeedsMore;
  error_code error;
  parser_->put(boost::asio::const_buffer(bytes.data(), parser_->header_end.size()), error);
  if (error || !parser_->is_header_done()) return Refuse(400, "malformed request: " + error.message());
  done_ += parser_->header_end.size();
  header_read_ = true;
  return AcceptHeader();
}

IncomingRequest::Progress IncomingRequest::AcceptHeader() {
  const bool http11 = parser_->version == 11;
  head_.headers = std::move(parser_->headers);
  head_.method = std::move(parser_->method);
  is_head_ = head_.method == "HEAD";
  if (head_.method == "CONNECT") return Refuse(501, "CONNECT is not done here");
  framing_ = {.keep = http11 && parser_->keep_alive(),
              .chunks = http11,
              .chunked_body = parser_->chunked(),
              .length = std::nullopt};
  if (parser_->content_length()) framing_.length = *parser_->content_length();
  Result<RequestTarget> target = ParseRequestTarget(parser_->target);
  if (!target) return Refuse(400, target.error().message);
  head_.target = *std::move(target);
  const HttpHeaders& headers = head_.headers;
  if (const size_t hosts = headers.Count("Host"); hosts > 1 || (http11 && hosts == 0)) {
    return Refuse(400, fmt::format("malformed request: {} Host headers", hosts));
  }
  const std::string* length = headers.FindValue("Content-Length");
  if (length != nullptr &&
      (headers.Count("Content-Length") > 1 || length->find_first_not_of("0123456789") != std::string::npos)) {
    return Refuse(400, "malformed request: Content-Length is not one whole number");
  }
  if (const std::string* coding = headers.FindValue("Transfer-Encoding")) {
    if (!http11) return Refuse(400, "malformed request: Transfer-Encoding in HTTP/1.0");
    if (!SameHeaderName(*coding, "chunked")) return Refuse(501, "no transfer coding but chunked is understood");
  }
  const std::string* expectation = headers.FindValue("Expect");
  if (expectation != nullptr && http11) {
    if (!SameHeaderName(*expectation, "100-continue")) return Refuse(417, "only 100-continue can be expected");
    asks_leave_ = true;
  }
  return Progress::kHead;
}

ServerRequest IncomingRequest::TakeHead() { return std::move(head_); }

std::string_view IncomingRequest::piece() const { return parser_->piece; }

IncomingRequest::Progress IncomingRequest::ParseBody() {
  const auto too_long = [&] { return Refuse(413, fmt::format("the body is longer than {} bytes", max_body_)); };
  if (!std::exchange(body_begun_, true)) {
    if (framing_.length.value_or(0) > max_body_) return too_long();
    if (asks_leave_ && !parser_->is_done() && waiting() == 0) return Progress::kNeedsLeave;
  }
  while (!parser_->is_done()) {
    if (waiting() == 0 || !parser_->MayTake(waiting())) return Progress::kNeedsMore;
    error_code error;
    parser_->piece = {};
    const size_t used = parser_->put(boost::asio::const_buffer(buffer_.data() + done_, waiting()), error);
    done_ += used;
    if (error && error != http::error::need_more) return Refuse(400, "malformed request: " + error.message());
    if (parser_->announced > max_body_) return too_long();
    if (!parser_->piece.empty()) return Progress::kBody;
    if (used == 0) {
      return full() ? Refuse(400, "malformed request: a line of the chunked body is too long") : Progress::kNeedsMore;
    }
  }
  complete_ = true;
  return Progress::kComplete;
}

}  // namespace skerry
