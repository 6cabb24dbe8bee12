#include "skerry/proxy/event_stamps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "skerry/proxy/stamps_testing.h"

namespace skerry {
namespace {

// What a stream of version 7 becomes, without the summary.
std::string Stamped(std::string_view stream) {
  EventStamper stamper("run", Version(7));
  std::string out;
  stamper.Pass(stream, Version(7), out);
  return out;
}

std::string Summary(std::string_view events, int end = 7) {
  return fmt::format(
      "event: skerry.summary\ndata: "
      R"({{"run":"run","weight_version_start":7,"weight_version_end":{},"events":{}}})"
      "\n\n",
      end, events);
}

std::string Finished(std::string_view stream) { return StampedEventsInPieces(stream, {}, SIZE_MAX); }

struct Line {
  size_t begin, end, next;
  std::string field, value;  // as the standard says; a comment's field is empty
};

// The lines of a stream that have ended, by the standard's own words and byte after byte.
std::vector<Line> LinesOf(std::string_view stream) {
  std::vector<Line> lines;
  size_t begin = 0;
  for (size_t at = 0; at < stream.size();) {
    if (stream[at] != '\r' && stream[at] != '\n') {
      ++at;
      continue;
    }
    const size_t next = at + (stream.substr(at).starts_with("\r\n") ? 2 : 1);
    std::string text(stream.substr(begin, at - begin));
    if (begin == 0 && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    const size_t colon = std::min(text.find(':'), text.size());
    std::string value = colon < text.size() ? text.substr(colon + 1) : "";
    if (value.starts_with(" ")) value.erase(0, 1);
    lines.push_back({begin, at, next, text.empty() ? "end of event" : text.substr(0, colon), value});
    begin = at = next;
  }
  return lines;
}

// What EventStamper has to make of a stream whose events have all ended.
std::string Expected(std::string_view stream, size_t change) {
  std::string out;
  size_t sent = 0;
  std::vector<Line> data;
  std::map<int, int> counts;
  for (const Line& line : LinesOf(stream)) {
    if (line.field == "data") data.push_back(line);
    if (line.field != "end of event") continue;
    const std::string value = data.size() == 1 ? data[0].value : "";
    const int version = !data.empty() && data.back().end < change ? 7 : 8;
    if (value.find_first_not_of(" \t") == value.find('{') && value.find_last_not_of(" \t") == value.rfind('}') &&
        value.find('{') < value.rfind('}') && value.rfind('}') != std::string::npos) {
      const std::string within = value.substr(value.find('{') + 1, value.rfind('}') - value.find('{') - 1);
      const size_t brace = stream.substr(0, data[0].end).rfind('}');
      out += stream.substr(sent, brace - sent);
      out += fmt::format("{}\"weight_version\":{}", within.find_first_not_of(" \t") == std::string::npos ? "" : ",",
                         version);
      sent = brace;
    }
    if (!data.empty() && value != "[DONE]") ++counts[version];
    data.clear();
  }
  out += stream.substr(sent);
  std::string events;
  for (const auto& [version, count] : counts)
    events += fmt::format("{}\"{}\":{}", events.empty() ? "" : ",", version, count);
  return out + Summary("{" + events + "}", 8);
}

// Lines of every form with every ending, sometimes without the last one's.
std::string SomeStream(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](std::initializer_list<const char*> texts) {
    return *std::next(texts.begin(), random() % texts.size());
  };
  std::string stream = one_of({"", "", "\xEF\xBB\xBF", "\xEF\xBB"});
  const std::string usual = one_of({"\n", "\r\n", "\r"});
  for (size_t i = random() % 12; i > 0; --i) {
    stream += one_of({"data: {\"a\":1}",
                      "data:{\"b\":{}}",
                      "data: { }",
                      "data:  \t{\"a\":\"}\"} ",
                      "data: {}}",
                      "data: {\"a\":",
                      "data: }",
                      "data: [DONE]",
                      "data:",
                      "data",
                      "data {}",
                      "dat",
                      "Data: {}",
                      ": ping",
                      "event: x",
                      "id: {}",
                      "retry: 7",
                      "",
                      "",
                      "",
                      "{}",
                      "data: [{}]"});
    stream += random() % 8 ? usual : one_of({"\n", "\r\n", "\r", "\n\r"});
    if (random() % 3) stream += usual;
  }
  return stream;
}

RC_GTEST_PROP(EventStamps, AreThoseOfTheStandardHoweverTheStreamIsCut,
              (uint64_t seed, const std::set<uint8_t>& places, uint8_t change)) {
  // An end that ends each event, whatever came before it; a lone LF could belong to a CR.
  const std::string stream = SomeStream(seed) + "x\n\n";
  const std::set<size_t> cuts(places.begin(), places.end());
  RC_LOG() << testing::PrintToString(stream) << "\n";
  const std::string expected = Expected(stream, change);
  RC_ASSERT(StampedEventsInPieces(stream, cuts, change) == expected);
  RC_ASSERT(StampedEventsInPieces(stream, {}, change) == expected);
  std::set<size_t> every;
  for (size_t i = 1; i < stream.size(); ++i) every.insert(i);
  RC_ASSERT(StampedEventsInPieces(stream, every, change) == expected);
}

RC_GTEST_PROP(EventStamps, TakenOutGiveTheStreamBack, (uint64_t seed, uint8_t cut)) {
  const std::string stream = SomeStream(seed).substr(0, cut);
  RC_LOG() << testing::PrintToString(stream) << "\n";
  std::string out = Finished(stream);
  for (const char* stamp :
       {",\"weight_version\":7", "\"weight_version\":7", ",\"weight_version\":8", "\"weight_version\":8"}) {
    out = Without(out, stamp);
  }
  RC_ASSERT(out.starts_with(stream));
  // At most the ends of a line and of an event stand between the stream and the summary.
  const size_t summary = out.rfind("event: skerry.summary\n");
  RC_ASSERT(summary >= stream.size());
  RC_ASSERT(out.substr(stream.size(), summary - stream.size()).find_first_not_of('\n') == std::string::npos);
  RC_ASSERT(summary - stream.size() <= 2);
  // The summary is an event of its own.
  const auto lines = LinesOf(out);
  const bool is_apart = lines.size() == 3 || (lines.size() > 3 && lines[lines.size() - 4].field == "end of event");
  RC_ASSERT(is_apart);
}

TEST(EventStamps, StandBehindTheLastMemberOfEachEvent) {
  EXPECT_EQ(Stamped("data: {\"a\":{\"b\":1}}\n\ndata: {\"c\":2}\n\n"),
            "data: {\"a\":{\"b\":1},\"weight_version\":7}\n\ndata: {\"c\":2,\"weight_version\":7}\n\n");
  EXPECT_EQ(Stamped("event: x\r\ndata:{}\r\nid: 3\r\n\r\n"),
            "event: x\r\ndata:{\"weight_version\":7}\r\nid: 3\r\n\r\n");
  EXPECT_EQ(Stamped("\xEF\xBB\xBF"
                    "data: {} \r\r"),
            "\xEF\xBB\xBF"
            "data: {\"weight_version\":7} \r\r");
}

TEST(EventStamps, SayNullWhereTheVersionIsNotKnown) {
  EventStamper stamper("run", Version(7));
  std::string out;
  stamper.Pass("data: {\"a\":1}\n\n", std::nullopt, out);
  EXPECT_EQ(out, "data: {\"a\":1,\"weight_version\":null}\n\n");
  stamper.Finish(std::nullopt, out);
  EXPECT_TRUE(out.ends_with(R"("weight_version_start":7,"weight_version_end":null,"events":{"null":1}})"
                            "\n\n"))
      << out;
}

TEST(EventStamps, AreForObjectsOnOneLineAlone) {
  for (const char* stream :
       {"data: [DONE]\n\n", ": {}\n\n", "event: {}\n\n", "data\n\n", "data: text\n\n", "data: [{}]\n\n",
        "data: {\"a\":\n\n", "data: {\"a\":{}\ndata: }\n\n", "data: {}\nid: 1\n: x\ndata: {}\n\n", "data: {}\ndata\n\n",
        "data : {}\n\n", " data: {}\n\n"}) {
    EXPECT_EQ(Stamped(stream), stream);
  }
}

TEST(EventStamps, AnEventHasTheVersionThatWasLiveWhenItsDataLineEnded) {
  EventStamper stamper("run", Version(7));
  std::string out;
  stamper.Pass("data: {\"a\":1}\n\ndata: {\"b\"", Version(7), out);
  EXPECT_EQ(out, "data: {\"a\":1,\"weight_version\":7}\n\n");
  stamper.Pass(":2}\n", Version(8), out);
  stamper.Pass("\n", Version(9), out);
  EXPECT_EQ(out, "data: {\"a\":1,\"weight_version\":7}\n\ndata: {\"b\":2,\"weight_version\":8}\n\n");
  EXPECT_EQ(stamper.events(), 2u);
}

TEST(EventStamps, CompleteEventsAndOtherLinesAreNotHeldBack) {
  EventStamper stamper("run", Version(7));
  std::string out;
  for (const char* piece : {": ping\n", "event: x\n", "data: text\n", "\n", "data: {}\n\n", "data: [DONE]\n\n"}) {
    std::string passed;
    stamper.Pass(piece, Version(7), passed);
    EXPECT_GE(passed.size(), std::string_view(piece).size());
  }
  EXPECT_EQ(stamper.events(), 2u);
}

TEST(EventStamps, TheSummaryCountsEventsByVersion) {
  EventStamper stamper("a-run", Version(9));
  std::string out;
  stamper.Pass("data: {}\n\ndata: {}\n\ndata: a\ndata: b\n\n: ping\n\n", Version(9), out);
  stamper.Pass("data: {}\n\ndata: [DONE]\n\n", Version(10), out);
  out.clear();
  stamper.Finish(Version(11), out);
  EXPECT_EQ(out,
            "event: skerry.summary\ndata: "
            R"({"run":"a-run","weight_version_start":9,"weight_version_end":11,"events":{"9":3,"10":1}})"
            "\n\n");
  EXPECT_EQ(stamper.events(), 4u);
}

TEST(EventStamps, TheSummaryIsAnEventOfItsOwn) {
  EXPECT_EQ(Finished(""), Summary("{}", 8));
  EXPECT_EQ(Finished(": ping"), ": ping\n\n" + Summary("{}", 8));
  EXPECT_EQ(Finished(": ping\n"), ": ping\n\n" + Summary("{}", 8));
  EXPECT_EQ(Finished(": ping\r"), ": ping\r\n\n" + Summary("{}", 8));
  EXPECT_EQ(Finished(": ping\r\r"), ": ping\r\r" + Summary("{}", 8));
  EXPECT_EQ(Finished("data: {}\n"), "data: {\"weight_version\":7}\n\n" + Summary("{\"7\":1}", 8));
  EXPECT_EQ(Finished("data: {}"), "data: {\"weight_version\":8}\n\n" + Summary("{\"8\":1}", 8));
}

TEST(EventStamps, AreLeftOutOfLinesAndEventsThatAreTooLong) {
  constexpr size_t kMost = EventStamper::kLongestLine;
  const auto line = [](size_t size) { return "data: {\"a\":\"" + std::string(size - 15, 'x') + "\"}\n"; };
  const std::string comment = "\n: " + std::string(kMost, 'x') + "\n";
  // All but the first byte of the blank line, and whether that is few enough.
  for (const auto& [event, stamped] :
       std::vector<std::pair<std::string, bool>>{{line(kMost), true},
                                                 {line(kMost + 1), false},
                                                 {line(kMost - 7) + "id: 12\n", true},
                                                 {line(kMost - 6) + "id: 12\n", false},
                                                 {"data: {\"a\":\"\"}" + comment, false}}) {
    const std::string stream = event + "\ndata: {}\n\n";
    std::string expected = event + "\ndata: {\"weight_version\":7}\n\n" + Summary("{\"7\":2}", 8);
    if (stamped) expected.insert(expected.find('}'), ",\"weight_version\":7");
    // Not EXPECT_EQ, which would print the texts.
    EXPECT_TRUE(Finished(stream) == expected) << event.size();
    const std::set<size_t> cuts{10,        kMost / 2, kMost - 8, kMost - 1,   kMost,
                                kMost + 1, kMost + 2, kMost + 3, event.size()};
    EXPECT_TRUE(StampedEventsInPieces(stream, cuts, SIZE_MAX) == expected) << event.size();
  }
}

TEST(EventStamps, ALineThatIsTooLongIsSentOnAsItComes) {
  EventStamper stamper("run", Version(7));
  std::string out;
  const std::string part(EventStamper::kLongestLine / 2, 'x');
  stamper.Pass("data: {" + part, Version(7), out);
  EXPECT_EQ(out, "");
  stamper.Pass(part, Version(7), out);
  EXPECT_EQ(out.size(), 7 + 2 * part.size());
  stamper.Pass(part, Version(7), out);
  EXPECT_EQ(out.size(), 7 + 3 * part.size());
  stamper.Pass("}\n\ndata: {}\n\n", Version(8), out);
  EXPECT_EQ(out.substr(7 + 3 * part.size()), "}\n\ndata: {\"weight_version\":8}\n\n");
  EXPECT_EQ(stamper.events(), 2u);
}

}  // namespace
}  // namespace skerry
