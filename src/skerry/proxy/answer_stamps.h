// Puts the versions into a JSON answer: `weight_version_start` and `weight_version_end` behind the last member of its
// object. Works on the bytes as they pass, holding back no more than the end of the object.
#ifndef SKERRY_PROXY_ANSWER_STAMPS_H_
#define SKERRY_PROXY_ANSWER_STAMPS_H_

#include <optional>
#include <string>
#include <string_view>

#include "skerry/board/names.h"

namespace skerry {

// ",\"weight_version_start\":7,\"weight_version_end\":8"; an unknown end is null.
std::string AnswerStamp(Version start, std::optional<Version> end, bool with_comma);

// Not thread-safe. For one answer's body, in pieces of any size.
class AnswerStamper {
 public:
  // Appends to `out` what may go on to the client. The last '}' seen, and the white space behind it, are held back
  // (white space beyond 4 KiB is let go together with its '}': such an answer stays without a stamp).
  void Pass(std::string_view piece, std::string& out);
  // The body is complete: appends the stamp, if the body's first byte that is no white space was '{' and its last '}',
  // and whatever was held back.
  void Finish(Version start, std::optional<Version> end, std::string& out);

 private:
  bool begun_ = false, is_object_ = false, has_members_ = false;
  std::string held_;
};

// A whole body with its stamp.
std::string StampedAnswer(std::string_view body, Version start, std::optional<Version> end);

}  // namespace skerry

#endif  // SKERRY_PROXY_ANSWER_STAMPS_H_
