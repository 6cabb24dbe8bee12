#include "skerry/proxy/framed_answer.h"

#include <array>
#include <charconv>

#include "skerry/proxy/passed_headers.h"

namespace skerry {

void AppendNumber(uint64_t number, std::string& out, int base) {
  std::array<char, 24> digits;
  out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number, base).ptr);
}

void FramedAnswer::Begin(const AnswerHead& head, const RequestFraming& client, std::optional<uint64_t> length,
                         bool ours, std::string_view more, std::string& out) {
  begun_ = true;
  if (!head.has_body) {
    framing_ = Framing::kNone;
  } else if (length) {
    framing_ = Framing::kLength;
  } else {
    framing_ = client.chunks ? Framing::kChunked : Framing::kUntilClose;
  }
  out += "HTTP/1.1 ";
  AppendNumber(static_cast<uint64_t>(head.status), out);
  out += ' ';
  out += head.reason;
  out += "\r\n";
  AppendPassedHeaders(head.headers, ours, out);
  if (length && head.status != 204) {
    out += "Content-Length: ";
    AppendNumber(*length, out);
    out += "\r\n";
  }
  if (framing_ == Framing::kChunked) out += "Transfer-Encoding: chunked\r\n";
  if (framing_ == Framing::kUntilClose || !client.keep) out += "Connection: close\r\n";
  out += more;
  out += "\r\n";
}

void FramedAnswer::Piece(std::string_view piece, std::string& out) const {
  if (piece.empty()) return;
  if (framing_ == Framing::kChunked) {
    AppendNumber(piece.size(), out, 16);
    out += "\r\n";
  }
  out += piece;
  if (framing_ == Framing::kChunked) out += "\r\n";
}

void FramedAnswer::End(std::string& out) const {
  if (framing_ == Framing::kChunked) out += "0\r\n\r\n";
}

}  // namespace skerry
