#include "skerry/apply/state.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

CheckpointState SomeState() {
  return {.label = {"grpo-1", Version(7)},
          .layout = Sha256::Of("layout"),
          .model = Sha256::Of("model"),
          .tensors = {{1, 2}, {~uint64_t{0}, 0x0123456789ABCDEF}}};
}

void ExpectEqual(const CheckpointState& a, const CheckpointState& b) {
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.tensors, b.tensors);
}

TEST(State, SurvivesBeingWrittenAndRead) {
  CheckpointState state = SomeState();
  ExpectEqual(Must(CheckpointState::Parse(state.Serialize())), state);
  state.label = {};
  state.tensors.clear();
  ExpectEqual(Must(CheckpointState::Parse(state.Serialize())), state);
  const TempDir directory;
  EXPECT_EQ(Must(ReadState(directory.path())), std::nullopt);
  Must(WriteState(directory.path(), SomeState()));
  ExpectEqual(*Must(ReadState(directory.path())), SomeState());
}

TEST(State, PrintsDigestsTheWayPeopleReadNumbers) {
  EXPECT_THAT(ToString(SomeState().Serialize()), HasSubstr("00000000000000010000000000000002"));
  EXPECT_THAT(ToString(SomeState().Serialize()), HasSubstr("ffffffffffffffff0123456789abcdef"));
}

TEST(State, EveryTruncationIsCorrupt) {
  const Bytes good = SomeState().Serialize();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(CheckpointState::Parse(ByteSpan(good).first(size)), Fails(Code::kCorrupt)) << size;
  }
}

TEST(State, RefusesFieldsOfTheWrongKind) {
  const std::string good = ToString(SomeState().Serialize());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return CheckpointState::Parse(AsBytes(text));
  };
  EXPECT_THAT(with("\"format\":1", "\"format\":2"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"format\":1", "\"format\":\"1\""), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"version\":7", "\"version\":-7"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"version\":7", "\"version\":7.5"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"version\":7", "\"version\":\"7\""), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"tensors\":[", "\"tensors\":[5,"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"tensors\":[", "\"tensors\":[[],"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"tensors\":[", "\"tensors\":[\"00\","), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"tensors\":[", "\"tensors\":[\"zz000000000000010000000000000002\","), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"model\":\"", "\"model\":\"00"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"model\":", "\"modal\":"), Fails(Code::kCorrupt));
  EXPECT_THAT(with("\"layout\":\"", "\"layout\":7,\"x\":\""), Fails(Code::kCorrupt));
  for (const char* text : {"", "null", "[]", "7", "\"x\"", "{}", "{\"format\":1}"}) {
    EXPECT_THAT(CheckpointState::Parse(AsBytes(text)), Fails(Code::kCorrupt)) << text;
  }
  EXPECT_THAT(CheckpointState::Parse(AsBytes(std::string(100'000, '['))), Fails(Code::kCorrupt));
}

TEST(State, AVersionThatNoBoardCanHaveIsCorrupt) {
  std::string text = ToString(SomeState().Serialize());
  text.replace(text.find("\"version\":7"), 11, "\"version\":18446744073709551615");
  EXPECT_THAT(CheckpointState::Parse(AsBytes(text)), Fails(Code::kCorrupt));
}

TEST(State, AFailedWriteKeepsTheOldOne) {
  const TempDir directory;
  Must(WriteState(directory.path(), SomeState()));
  CheckpointState next = SomeState();
  next.label.version = Version(8);
  {
    const WithFailpoints with("file.write:errno=28");
    EXPECT_THAT(WriteState(directory.path(), next), Fails(Code::kNoSpace));
  }
  ExpectEqual(*Must(ReadState(directory.path())), SomeState());
}

TEST(State, DescribesItsVersion) {
  EXPECT_EQ(SomeState().label.Describe(), "grpo-1 version 7");
  EXPECT_FALSE(VersionLabel().Describe().empty());
}

}  // namespace
}  // namespace skerry
