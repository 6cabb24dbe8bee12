// The bytes that an engine sends to the proxy. However they are cut in pieces, they are the same answer, or none.
#include "check.h"
#include "skerry/http/incoming_answer.h"

namespace skerry {
namespace {

constexpr size_t kMaxHeader = 2048;

// The answer in `bytes` as one text, when it comes in pieces of `piece` bytes and then the connection ends.
std::string Answer(std::string_view bytes, size_t piece, bool to_head) {
  IncomingAnswer incoming(kMaxHeader, to_head);
  std::string text, left;
  while (true) {
    size_t done = 0;
    IncomingAnswer::Progress progress = IncomingAnswer::Progress::kNeedsMore;
    do {
      progress = incoming.Parse(left, done);
      FUZZ_CHECK(done <= left.size());
      if (progress == IncomingAnswer::Progress::kHead) {
        const AnswerHead head = incoming.TakeHead();
        FUZZ_CHECK(head.status >= 200);
        text += std::to_string(head.status) + head.reason + "\n";
        for (const auto& field : head.headers.fields()) text += field.name + ":" + field.value + "\n";
      } else if (progress == IncomingAnswer::Progress::kBody) {
        FUZZ_CHECK(!incoming.piece().empty());
        text += incoming.piece();
      }
    } while (progress == IncomingAnswer::Progress::kHead || progress == IncomingAnswer::Progress::kBody);
    left.erase(0, done);
    if (progress == IncomingAnswer::Progress::kNeedsMore && bytes.empty()) progress = incoming.End();
    // Only what is refused may be refused sooner or later.
    if (progress == IncomingAnswer::Progress::kRefused) return incoming.head_done() ? "refused within" : "refused";
    if (progress == IncomingAnswer::Progress::kComplete) return text + (incoming.keep() ? "\nkept" : "\nended");
    left += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool to_head = data[0] >= 128;
  FUZZ_CHECK(skerry::Answer(bytes, size, to_head) == skerry::Answer(bytes, 1 + data[0] % 16, to_head));
  return 0;
}
