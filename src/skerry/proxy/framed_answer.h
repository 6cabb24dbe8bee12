// An answer's bytes as they go to a client: status line, header fields, framing.
#ifndef SKERRY_PROXY_FRAMED_ANSWER_H_
#define SKERRY_PROXY_FRAMED_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/http/incoming_answer.h"
#include "skerry/http/request.h"

namespace skerry {

// Not thread-safe. All functions append to `out`.
class FramedAnswer {
 public:
  // The head. `length`: of the body, where it is known. `ours`: Skerry-… fields pass. `more`: further lines.
  void Begin(const AnswerHead& head, const RequestFraming& client, std::optional<uint64_t> length, bool ours,
             std::string_view more, std::string& out);
  void Piece(std::string_view piece, std::string& out) const;
  void End(std::string& out) const;

  // Something of it has been written.
  bool begun() const { return begun_; }
  // The end of the answer can be told without closing the connection.
  bool keeps() const { return framing_ != Framing::kUntilClose; }

 private:
  enum class Framing { kNone, kLength, kChunked, kUntilClose };

  Framing framing_ = Framing::kNone;
  bool begun_ = false;
};

// In decimal or hexadecimal digits; for what is done with each event: fmt reads its format each time.
void AppendNumber(uint64_t number, std::string& out, int base = 10);

}  // namespace skerry

#endif  // SKERRY_PROXY_FRAMED_ANSWER_H_
