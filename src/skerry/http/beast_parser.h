// Inside http: Boost.Beast's parser of HTTP/1 messages, kept to what is needed of it: start line, fields, and pieces of
// the body as they come.
#ifndef SKERRY_HTTP_BEAST_PARSER_H_
#define SKERRY_HTTP_BEAST_PARSER_H_

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "skerry/http/headers.h"

namespace skerry {

// Finds the end of a message's header in the bytes that have come so far, and what may mean something else to another
// reader: lines that go on in the next one (RFC 9112, 5.2), line ends without their other half, bytes of value 0.
class HeaderEnd {
 public:
  // `bytes`: from the start line on, each time with more behind it. Looks at each byte once.
  void Look(std::string_view bytes) {
    while (!found_) {
      while (next_ < bytes.size() && !IsStop(bytes[next_])) ++next_;
      if (next_ == bytes.size()) return;
      if (bytes[next_] == '\r' && next_ + 2 >= bytes.size()) return;  // what follows has not come
      doubtful_ =
          bytes[next_] != '\r' || bytes[next_ + 1] != '\n' || bytes[next_ + 2] == ' ' || bytes[next_ + 2] == '\t';
      if (doubtful_) return;
      if (bytes[next_ + 2] == '\r') {
        if (next_ + 3 >= bytes.size()) return;
        found_ = bytes[next_ + 3] == '\n';
        doubtful_ = !found_;
        if (doubtful_) return;
      }
      next_ += found_ ? 4 : 2;
    }
  }
  bool found() const { return found_; }
  bool doubtful() const { return doubtful_; }
  size_t size() const { return next_; }  // of the header, where it was found

 private:
  static bool IsStop(char c) { return c == '\r' || c == '\n' || c == '\0'; }

  size_t next_ = 0;
  bool found_ = false, doubtful_ = false;
};

template <bool is_request>
class BeastParser : public boost::beast::http::basic_parser<is_request> {
 public:
  // `head_limit`: bytes of start line and fields. Bodies have no limit here.
  explicit BeastParser(size_t head_limit) {
    this->header_limit(static_cast<uint32_t>(head_limit));
    this->body_limit(boost::none);
  }

  // Whether the parser may be given `bytes` of the body: it relies on having all of "0\r\n\r\n", the shortest chunked
  // body.
  bool MayTake(size_t bytes) const { return !this->chunked() || announced > 0 || bytes >= 5; }

  std::string method, target;  // of a request
  int status = 0;              // of an answer
  std::string reason;
  int version = 0;  // 10, 11
  HttpHeaders headers;
  HeaderEnd header_end;    // of this message, for whoever gives the bytes
  std::string_view piece;  // of the body, found by the last put(); a part of what it was given
  uint64_t announced = 0;  // bytes of all chunks whose size is known; the greatest number where it is more than that

 private:
  using Text = boost::beast::string_view;
  using ErrorCode = boost::beast::error_code;
  using Verb = boost::beast::http::verb;
  using FieldName = boost::beast::http::field;

  static std::string_view View(Text text) { return {text.data(), text.size()}; }

  void on_request_impl(Verb, Text method_text, Text target_text, int number, ErrorCode&) override {
    method = View(method_text);
    target = View(target_text);
    version = number;
  }
  void on_response_impl(int code, Text reason_text, int number, ErrorCode&) override {
    status = code;
    reason = View(reason_text);
    version = number;
  }
  void on_field_impl(FieldName, Text name, Text value, ErrorCode&) override {
    // Fields behind a chunked body are no header.
    if (!header_complete_) headers.Add(std::string(View(name)), std::string(View(value)));
  }
  void on_header_impl(ErrorCode&) override { header_complete_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(Text bytes, ErrorCode&) override {
    piece = View(bytes);
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t size, Text, ErrorCode&) override {
    announced = size > UINT64_MAX - announced ? UINT64_MAX : announced + size;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, Text bytes, ErrorCode&) override {
    piece = View(bytes);
    return bytes.size();
  }
  void on_finish_impl(ErrorCode&) override {}

  bool header_complete_ = false;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_BEAST_PARSER_H_
