// An engine's answer on its way to the client: headers without those of the connection, stamps, framing.
#ifndef SKERRY_PROXY_ANSWER_TO_CLIENT_H_
#define SKERRY_PROXY_ANSWER_TO_CLIENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "skerry/apply/state.h"
#include "skerry/http/incoming_answer.h"
#include "skerry/http/request.h"
#include "skerry/proxy/answer_stamps.h"
#include "skerry/proxy/event_stamps.h"
#include "skerry/proxy/framed_answer.h"

namespace skerry {

// Not thread-safe.
class AnswerToClient {
 public:
  // A JSON answer up to this size is read whole, so that its headers can say what is known at its end.
  static constexpr size_t kWhole = 1 << 20;

  // `stamped`: the answer of a generation route.
  AnswerToClient(AnswerHead head, const RequestFraming& client, VersionLabel start, bool stamped);

  // Append to `out` what may go to the client now, headers first. `version`: live when the engine sent it; nullopt: not
  // known.
  void Begin(std::string& out);
  void Pass(std::string_view piece, std::optional<Version> version, std::string& out);
  void Finish(std::optional<Version> end, std::string& out);

  // Something of the answer has gone to the client.
  bool begun() const { return framed_.begun(); }
  // The end of the answer can be told without closing the connection.
  bool keeps() const { return framed_.keeps(); }
  int status() const { return head_.status; }

 private:
  enum class Mode { kPlain, kWholeJson, kJson, kEvents };

  void WriteHead(std::optional<uint64_t> length, std::string_view more, std::string& out);

  AnswerHead head_;
  const RequestFraming client_;
  const VersionLabel start_;
  Mode mode_ = Mode::kPlain;
  FramedAnswer framed_;
  std::string body_, stamped_;
  AnswerStamper json_;
  std::optional<EventStamper> events_;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_ANSWER_TO_CLIENT_H_
