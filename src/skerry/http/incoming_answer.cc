#include "skerry/http/incoming_answer.h"

#include <fmt/core.h>

#include <utility>

#include "skerry/http/beast_parser.h"

namespace skerry {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// The longest line or trailer of a chunked body.
constexpr size_t kMaxLine = 64 << 10;

}  // namespace

class IncomingAnswer::Parser : public BeastParser<false> {
 public:
  using BeastParser::BeastParser;
};

IncomingAnswer::IncomingAnswer(size_t max_header, bool to_head) : max_header_(max_header), to_head_(to_head) {
  Begin();
}
IncomingAnswer::~IncomingAnswer() = default;

void IncomingAnswer::Begin() {
  parser_ = std::make_unique<Parser>(max_header_ + 1);
  parser_->skip(to_head_);
}

IncomingAnswer::Progress IncomingAnswer::Refuse(std::string why) {
  why_ = std::move(why);
  keep_ = false;
  return Progress::kRefused;
}

IncomingAnswer::Progress IncomingAnswer::ParseHeader(std::string_view bytes, size_t& done) {
  parser_->header_end.Look(bytes);
  const bool found = parser_->header_end.found();
  if ((found ? parser_->header_end.size() : bytes.size()) > max_header_) {
    return Refuse(fmt::format("status line and headers are longer than {} bytes", max_header_));
  }
  if (parser_->header_end.doubtful()) return Refuse("a folded line, half a line end or a byte 0 in the header");
  if (!found) return Progress::kNeedsMore;
  error_code error;
  parser_->put(boost::asio::const_buffer(bytes.data(), parser_->header_end.size()), error);
  if (error || !parser_->is_header_done()) return Refuse(error.message());
  done += parser_->header_end.size();
  const HttpHeaders& headers = parser_->headers;
  const std::string* length = headers.FindValue("Content-Length");
  if (length != nullptr && (headers.Count("Content-Length") > 1 || headers.Count("Transfer-Encoding") > 0 ||
                            length->find_first_not_of("0123456789") != std::string::npos)) {
    return Refuse("Content-Length is not one whole number, or not alone");
  }
  if (const std::string* coding = headers.FindValue("Transfer-Encoding");
      coding != nullptr && !SameHeaderName(*coding, "chunked")) {
    return Refuse(fmt::format("transfer coding \"{}\" is not understood", coding->substr(0, 40)));
  }
  if (parser_->status == 101) return Refuse("it changes the protocol, which nobody asked for");
  if (parser_->status < 200) {
    Begin();
    return Progress::kNeedsMore;  // of what follows
  }
  head_done_ = true;
  head_.status = parser_->status;
  head_.reason = std::move(parser_->reason);
  if (parser_->content_length()) head_.length = *parser_->content_length();
  head_.headers = std::move(parser_->headers);
  head_.has_body = !to_head_ && head_.status != 204 && head_.status != 304 && head_.length.value_or(1) > 0;
  return Progress::kHead;
}

IncomingAnswer::Progress IncomingAnswer::Parse(std::string_view bytes, size_t& done) {
  while (!head_done_ && done < bytes.size()) {
    const size_t before = done;
    const Progress progress = ParseHeader(bytes.substr(done), done);
    if (progress != Progress::kNeedsMore || done == before) return progress;
  }
  if (!head_done_) return Progress::kNeedsMore;
  while (!parser_->is_done() && head_.has_body) {
    if (done == bytes.size() || !parser_->MayTake(bytes.size() - done)) return Progress::kNeedsMore;
    error_code error;
    parser_->piece = {};
    const size_t used = parser_->put(boost::asio::const_buffer(bytes.data() + done, bytes.size() - done), error);
    done += used;
    if (error && error != http::error::need_more) return Refuse(error.message());
    if (!parser_->piece.empty()) return Progress::kBody;
    if (used > 0) continue;
    if (bytes.size() - done > kMaxLine) return Refuse("a line of the chunked body is too long");
    return Progress::kNeedsMore;
  }
  keep_ = parser_->keep_alive() && (parser_->is_done() || !head_.has_body);
  return Progress::kComplete;
}

IncomingAnswer::Progress IncomingAnswer::End() {
  if (!head_done_) return Refuse("the connection ended before an answer");
  if (parser_->is_done() || !head_.has_body) return Progress::kComplete;
  error_code error;
  parser_->put_eof(error);
  if (error) return Refuse("the connection ended within the body");
  keep_ = false;
  return Progress::kComplete;
}

AnswerHead IncomingAnswer::TakeHead() { return std::exchange(head_, AnswerHead{.has_body = head_.has_body}); }

std::string_view IncomingAnswer::piece() const { return parser_->piece; }

}  // namespace skerry
