// Puts versions into a stream of server-sent events (WHATWG HTML, 9.2): a member `weight_version` into each event whose
// data is a JSON object on one line, and a last event that says which versions took part.
#ifndef SKERRY_PROXY_EVENT_STAMPS_H_
#define SKERRY_PROXY_EVENT_STAMPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/board/names.h"

namespace skerry {

// Not thread-safe. For one stream, in pieces of any size: what is sent on does not depend on how it was cut. Lines end
// with LF, CR or CRLF. Held back are a line that has not ended, and an event from its data line to its end, since
// another data line would belong to the same data. A piece of complete events passes without a copy or an allocation of
// its own.
class EventStamper {
 public:
  // A longer line, or an event that is longer from its data line on, is sent on as it comes, without a stamp.
  static constexpr size_t kLongestLine = 1 << 20;

  // `run` and the version at which the request was admitted.
  EventStamper(std::string run, Version start) : run_(std::move(run)), start_(start) {}

  // Appends to `out` what may go on. `version`: live when the engine sent this piece; nullopt: not known. An event
  // that came in several pieces has the version of the piece that ended its data line.
  void Pass(std::string_view piece, std::optional<Version> version, std::string& out);
  // The stream is complete: appends what was held back and the event `skerry.summary`; with `end`, the version that was
  // live when its last byte came. Ends an unfinished line and event first, so that the summary is an event of its own.
  void Finish(std::optional<Version> end, std::string& out);

  // Events of the stream that carried data other than [DONE].
  uint64_t events() const { return events_; }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // What is known of the event that comes in. Offsets are those of the window.
  struct Event {
    size_t data_lines = 0;
    bool is_done = false;            // its data is [DONE]
    std::optional<Version> version;  // of its last data line
    // Of an event that may get a stamp: of its only data line, and of the last '}' in it.
    size_t begin = 0, brace = kNone;
    bool with_comma = false;
  };

  // Appends to `out` what of `window` may go on, and returns how much that is.
  size_t Work(std::string_view window, std::optional<Version> version, std::string& out);
  // A line that ends at `end` has come in whole. `sent` is how much of the window was appended to `out`.
  void EndLine(std::string_view window, size_t end, std::optional<Version> version, size_t& sent, std::string& out);
  void AddData(std::string_view window, std::string_view data);
  void EndEvent(std::string_view window, size_t& sent, std::string& out);
  std::string_view Line(std::string_view window, size_t end) const;
  std::string Summary(std::optional<Version> end) const;

  const std::string run_;
  const Version start_;
  // The window is what was held back and the piece behind it.
  std::string held_;
  size_t line_ = 0;         // in the window: where the line begins that has not ended
  size_t scanned_ = 0;      // in the window: no line ends from there back to line_
  bool long_line_ = false;  // the beginning of that line was sent on
  bool long_data_ = false;  // and it is a data line
  bool first_line_ = true;  // a byte order mark may stand before it
  bool after_cr_ = false;   // a LF that comes next belongs to the ending before
  bool in_event_ = false;   // the last line was not empty
  Event event_;
  uint64_t events_ = 0;
  std::map<std::optional<Version>, uint64_t> counts_;  // events by version
};

}  // namespace skerry

#endif  // SKERRY_PROXY_EVENT_STAMPS_H_
