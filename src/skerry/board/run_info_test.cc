#include "skerry/board/run_info.h"

#include <gtest/gtest.h>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

TEST(RunInfo, ComesBackAsItWasWritten) {
  RunInfo info{.run = RunNamed("r"), .base = "org/model at /ckpt/base", .parent = {}, .layout = Sha256::Of("layout")};
  EXPECT_EQ(ParseRunInfo(SerializeRunInfo(info).value()).value(), info);
  EXPECT_NE(ToString(SerializeRunInfo(info).value()).find(R"("parent":null)"), std::string::npos);
  info.parent = ForkPoint{.run = RunNamed("older"), .version = Version(6), .manifest = Sha256::Of("manifest")};
  EXPECT_EQ(ParseRunInfo(SerializeRunInfo(info).value()).value(), info);
}

TEST(RunInfo, IsReadStrictly) {
  const std::string hex = Sha256::Of("layout").Hex();
  const auto parse = [](const std::string& text) { return CodeOf(ParseRunInfo(AsBytes(text))); };
  EXPECT_EQ(parse(R"({"format":1,"run":"r","base":"b","parent":null,"layout":")" + hex + "\"}"), "ok");
  EXPECT_EQ(parse(R"({"format":2,"run":"r","base":"b","parent":null,"layout":")" + hex + "\"}"), "unsupported");
  EXPECT_EQ(parse(R"({"format":1,"run":"r","run":"s","base":"b","layout":")" + hex + "\"}"), "corrupt");
  EXPECT_EQ(parse(R"({"format":1,"run":"r","base":"b","parent":{"run":"q"},"layout":")" + hex + "\"}"), "corrupt");
  EXPECT_EQ(parse(R"({"format":1,"run":"r","base":"b","layout":"short"})"), "corrupt");
  EXPECT_EQ(parse(""), "corrupt");
}

TEST(BoardInfo, ComesBackAsItWasWrittenAndIsReadStrictly) {
  const BoardInfo info{.id = "0123456789abcdef"};
  EXPECT_EQ(ParseBoardInfo(SerializeBoardInfo(info).value()).value(), info);
  EXPECT_EQ(CodeOf(ParseBoardInfo(AsBytes(R"({"format":2,"id":"x"})"))), "unsupported");
  EXPECT_EQ(CodeOf(ParseBoardInfo(AsBytes(R"({"format":1})"))), "corrupt");
  EXPECT_EQ(CodeOf(SerializeBoardInfo({.id = "two words"})), "invalid");
}

}  // namespace
}  // namespace skerry
