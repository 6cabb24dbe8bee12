// The bytes that an engine answers with, on their way through the stampers: however they are cut in pieces the client
// gets the same, and nothing but the stamps is added to them.
#include <nlohmann/json.hpp>

#include "check.h"
#include "skerry/proxy/stamps_testing.h"

namespace skerry {
namespace {

constexpr Version kStart(7), kEnd(8);

void CheckAnswer(std::string_view body, const std::set<size_t>& cuts) {
  const std::string whole = StampedAnswer(body, kStart, kEnd);
  FUZZ_CHECK(StampedAnswerInPieces(body, cuts, kStart, kEnd) == whole);
  // A text that begins with a byte order mark gets no stamp, and the decoder takes a byte 0 for the end.
  const bool is_plain = !body.starts_with('\xEF') && body.find('\0') == std::string_view::npos;
  if (is_plain && nlohmann::json::parse(body, nullptr, false).is_object()) {
    const auto stamped = nlohmann::json::parse(whole, nullptr, false);
    FUZZ_CHECK(stamped.is_object() && stamped.value("weight_version_end", 0) == 8);
  }
  if (body.find("weight_version") != std::string_view::npos) return;
  FUZZ_CHECK(Without(Without(whole, AnswerStamp(kStart, kEnd, true)), AnswerStamp(kStart, kEnd, false)) == body);
}

void CheckEvents(std::string_view stream, const std::set<size_t>& cuts, size_t change) {
  const std::string whole = StampedEventsInPieces(stream, {}, change);
  FUZZ_CHECK(StampedEventsInPieces(stream, cuts, change) == whole);
  if (stream.find("weight_version") != std::string_view::npos) return;
  std::string bare = whole;
  for (const char* stamp :
       {",\"weight_version\":7", "\"weight_version\":7", ",\"weight_version\":8", "\"weight_version\":8"}) {
    bare = Without(std::move(bare), stamp);
  }
  FUZZ_CHECK(bare.starts_with(stream));
  const size_t summary = bare.rfind("event: skerry.summary\ndata: {");
  FUZZ_CHECK(summary >= stream.size() && summary - stream.size() <= 2);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::set<size_t> cuts;
  for (size_t at = 0; at < bytes.size(); at += 1 + data[0] % 16) cuts.insert(at);
  skerry::CheckAnswer(bytes, cuts);
  skerry::CheckEvents(bytes, cuts, data[1]);
  return 0;
}
