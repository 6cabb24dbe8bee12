// The bytes that a server sends, as answers (RFC 9112), for passing them on: the counterpart of incoming_request.h.
#ifndef SKERRY_HTTP_INCOMING_ANSWER_H_
#define SKERRY_HTTP_INCOMING_ANSWER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/http/headers.h"

namespace skerry {

// The beginning of an answer.
struct AnswerHead {
  int status = 0;
  std::string reason;
  HttpHeaders headers;
  bool has_body = false;           // it may come; never for HEAD, 204, 304
  std::optional<uint64_t> length;  // of the body, where it is known (of HEAD: that the body would have)
};

// Not thread-safe.
class IncomingAnswer {
 public:
  enum class Progress {
    kNeedsMore,
    kHead,      // TakeHead(), go on
    kBody,      // piece() is the next part; go on
    kComplete,  // the answer has ended; what follows belongs to nothing that was asked
    kRefused,   // why() says why: this is no answer that can be relied on
  };

  IncomingAnswer(size_t max_header, bool to_head);
  ~IncomingAnswer();
  IncomingAnswer(const IncomingAnswer&) = delete;
  IncomingAnswer& operator=(const IncomingAnswer&) = delete;

  // Parses `bytes` from `done` on, up to the next thing to be told, and moves `done` behind what was taken. The rest is
  // to be given again with what follows. Interim answers (1xx) are passed over.
  Progress Parse(std::string_view bytes, size_t& done);
  // The connection has ended: kComplete where that ends the body properly, else kRefused.
  Progress End();

  AnswerHead TakeHead();
  std::string_view piece() const;
  const std::string& why() const { return why_; }
  bool head_done() const { return head_done_; }
  // After kComplete: another request may be sent on this connection.
  bool keep() const { return keep_; }

 private:
  class Parser;

  void Begin();
  Progress Refuse(std::string why);
  Progress ParseHeader(std::string_view bytes, size_t& done);

  const size_t max_header_;
  const bool to_head_;
  std::unique_ptr<Parser> parser_;
  bool head_done_ = false, keep_ = false;
  AnswerHead head_;
  std::string why_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_INCOMING_ANSWER_H_
