// How many tokens an answer has, as far as its bytes tell while they pass: for the rate that autoscalers look at, not
// for bills.
#ifndef SKERRY_GATEWAY_ANSWER_TOKENS_H_
#define SKERRY_GATEWAY_ANSWER_TOKENS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "skerry/http/headers.h"

namespace skerry {

// Not thread-safe. For one answer's body, in pieces of any size.
class AnswerTokens {
 public:
  // By the answer's Content-Type: of a stream of events each event with data is a token, but for [DONE] and those that
  // have a name; of JSON it is what the last "completion_tokens" (or "output_tokens") of its end says.
  explicit AnswerTokens(const HttpHeaders& headers);

  void Pass(std::string_view piece);
  uint64_t Finish();

 private:
  enum class Kind { kNone, kJson, kEvents };

  void TakeLine();

  static constexpr size_t kTail = 2048;     // bytes of a JSON answer's end that are looked at
  static constexpr size_t kLineStart = 16;  // of an event's line

  Kind kind_ = Kind::kNone;
  std::string tail_;
  std::string line_;                          // the beginning of the current one
  bool has_data_ = false, is_named_ = false;  // of the current event
  uint64_t events_ = 0;
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_ANSWER_TOKENS_H_
