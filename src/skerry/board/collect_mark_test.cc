#include "skerry/board/collect_mark.h"

#include "skerry/board/keys.h"
#include "skerry/board/run_testing.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

const RunId kRun = RunNamed("grpo-1");

TEST(CollectMark, ComesBackAsItWasWritten) {
  const CollectMark mark{.run = kRun, .condemned = {{"runs/grpo-1/versions/000000001/manifest.json", 17}, {"a/b", 5}}};
  EXPECT_EQ(Must(ParseCollectMark(Must(SerializeCollectMark(mark)))), mark);
}

TEST(CollectMark, RefusesWhatIsMalformed) {
  const auto parse = [](std::string_view text) { return ParseCollectMark(AsBytes(text)); };
  EXPECT_THAT(parse(R"({"format":1,"run":"r","condemned":[{"key":"../x","since":1}]})"),
              Fails(Code::kCorrupt, HasSubstr("condemned[0].key")));
  EXPECT_THAT(parse(R"({"format":1,"run":"r","condemned":[{"key":"x","since":1},{"key":"x","since":2}]})"),
              Fails(Code::kCorrupt, HasSubstr("twice")));
  EXPECT_THAT(parse(R"({"format":1,"run":"r"})"), Fails(Code::kCorrupt, HasSubstr("condemned")));
  EXPECT_THAT(parse(""), Fails(Code::kCorrupt));
}

TEST(CollectMark, AnEntryTakesNoMoreRoomThanItIsCountedFor) {
  CollectMark mark{.run = kRun, .condemned = {}};
  const size_t empty = Must(SerializeCollectMark(mark)).size();
  mark.condemned = {{"a", INT64_MAX}, {"b", 1'767'323'045'678}};
  EXPECT_LE(Must(SerializeCollectMark(mark)).size(), empty + 2 * (1 + kCollectMarkEntryBytes));
}

TEST(CollectMark, ADamagedOneIsReadAsEmptySoThatEveryGracePeriodBeginsAgain) {
  const auto store = std::make_shared<MemoryStore>();
  const Board board = Must(Board::Create(store));
  EXPECT_FALSE(Must(ReadCollectMark(board, kRun)).generation);
  const Generation damaged = Must(store->CompareAndSwap(CollectMarkKey(kRun), std::nullopt, AsBytes("{")));
  const CollectMarkAt at = Must(ReadCollectMark(board, kRun));
  EXPECT_TRUE(at.mark.condemned.empty());
  EXPECT_EQ(at.generation, damaged);
}

}  // namespace
}  // namespace skerry
