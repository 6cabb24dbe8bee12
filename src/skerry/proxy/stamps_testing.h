// Streams in pieces, for tests and fuzzers of the stampers.
#ifndef SKERRY_PROXY_STAMPS_TESTING_H_
#define SKERRY_PROXY_STAMPS_TESTING_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/proxy/answer_stamps.h"
#include "skerry/proxy/event_stamps.h"

namespace skerry {

// `text` cut at these places; those behind its end count for nothing.
inline std::vector<std::string_view> Pieces(std::string_view text, const std::set<size_t>& cuts) {
  std::vector<std::string_view> pieces;
  size_t at = 0;
  for (const size_t cut : cuts) {
    if (cut >= text.size()) break;
    pieces.push_back(text.substr(at, cut - at));
    at = cut;
  }
  pieces.push_back(text.substr(at));
  return pieces;
}

// Each piece is passed from memory of its own, so that a sanitizer sees what is read beyond it.
inline std::string StampedAnswerInPieces(std::string_view body, const std::set<size_t>& cuts, Version start,
                                         std::optional<Version> end) {
  AnswerStamper stamper;
  std::string out;
  for (const std::string_view piece : Pieces(body, cuts)) stamper.Pass(std::string(piece), out);
  stamper.Finish(start, end, out);
  return out;
}

// Bytes from `change` on are sent while version 8 is live, those before while 7 is; the summary's end is 8.
inline std::string StampedEventsInPieces(std::string_view stream, std::set<size_t> cuts, size_t change) {
  EventStamper stamper("run", Version(7));
  cuts.insert(change);
  std::string out;
  size_t at = 0;
  for (const std::string_view piece : Pieces(stream, cuts)) {
    stamper.Pass(std::string(piece), Version(at < change ? 7 : 8), out);
    at += piece.size();
  }
  stamper.Finish(Version(8), out);
  return out;
}

// `text` without these stamps.
inline std::string Without(std::string text, std::string_view stamp) {
  for (size_t at = 0; (at = text.find(stamp, at)) != std::string::npos;) text.erase(at, stamp.size());
  return text;
}

}  // namespace skerry

#endif  // SKERRY_PROXY_STAMPS_TESTING_H_
