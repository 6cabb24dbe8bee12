#include "skerry/board/keys.h"

#include <gtest/gtest.h>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

TEST(Keys, AreThoseOfTheProtocol) {
  const RunId run = RunNamed("grpo-1");
  const Digest digest = Sha256::Of("abc");  // ba7816bf 8f01cfea …, FIPS 180-2
  EXPECT_EQ(BoardKey(), "board.json");
  EXPECT_EQ(RunKey(run), "runs/grpo-1/run.json");
  EXPECT_EQ(HeadKey(run), "runs/grpo-1/head");
  EXPECT_EQ(LayoutKey(run, digest),
            "runs/grpo-1/layouts/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.json.zst");
  EXPECT_EQ(StagedManifestKey(run, Version(7), digest),
            "runs/grpo-1/versions/000000007/manifest-ba7816bf8f01cfea.json");
  EXPECT_EQ(ManifestKey(run, Version(7)), "runs/grpo-1/versions/000000007/manifest.json");
  EXPECT_EQ(DeltaKey(run, Version(7), 3, digest), "runs/grpo-1/versions/000000007/delta-003-ba7816bf8f01cfea.skerry");
  EXPECT_EQ(TensorDigestsKey(run, Version(123456789), digest),
            "runs/grpo-1/versions/123456789/digests-ba7816bf8f01cfea.bin");
  EXPECT_EQ(AnchorFileKey(run, Version(40), digest, "sub/model.safetensors").value(),
            "runs/grpo-1/anchors/000000040/ba7816bf8f01cfea/sub/model.safetensors");
}

TEST(Keys, OfAViewAreBelowItsRunWhoseHeadItShares) {
  const RunId view = RunNamed("grpo-1/fp8-block");
  EXPECT_EQ(HeadKey(view), "runs/grpo-1/head");
  EXPECT_EQ(RunKey(view), "runs/grpo-1/views/fp8-block/run.json");
  EXPECT_EQ(ManifestKey(view, Version(7)), "runs/grpo-1/views/fp8-block/versions/000000007/manifest.json");
  EXPECT_EQ(AnchorPrefix(view, Version(7)), "runs/grpo-1/views/fp8-block/anchors/000000007/");
}

TEST(Keys, OfAnAnchorCannotLeaveItsFolder) {
  for (const char* path : {"", "/x", "../x", "a/../../../head", ".hidden", "a//b"}) {
    EXPECT_EQ(CodeOf(AnchorFileKey(RunNamed("r"), Version(1), Digest(), path)), "invalid") << path;
  }
}

TEST(ValidateKey, RefusesControlCharactersBackslashesAndBadUtf8) {
  EXPECT_TRUE(ValidateKey("ключ/鍵/😀").has_value());
  for (const std::string_view key :
       {std::string_view("a\0b", 3), std::string_view("a\nb"), std::string_view("a\x7f"), std::string_view("a\\b"),
        std::string_view("a\xff"), std::string_view("a\xc3"), std::string_view("\xc0\xaf"),
        std::string_view("\xed\xa0\x80"), std::string_view("\xe0\x80\x80"), std::string_view("\xf4\x90\x80\x80")}) {
    EXPECT_EQ(CodeOf(ValidateKey(key)), "invalid") << ToHex(AsBytes(key));
  }
}

TEST(ValidateKey, BoundsTheWholeAndEachComponent) {
  const std::string component(kMaxKeyComponentSize, 'c');
  EXPECT_TRUE(ValidateKey(component).has_value());
  EXPECT_FALSE(ValidateKey(component + "c").has_value());
  std::string key;
  while (key.size() < kMaxKeySize) key += "ab/";
  key.resize(kMaxKeySize);
  EXPECT_TRUE(ValidateKey(key).has_value());
  EXPECT_FALSE(ValidateKey(key + "x").has_value());
}

TEST(ValidateCheckpointPath, AllowsHiddenFilesButNoWayOut) {
  EXPECT_TRUE(ValidateCheckpointPath(".gitattributes").has_value());
  EXPECT_FALSE(ValidateKey(".gitattributes").has_value());
  for (const char* path : {"..", "a/../b", "./a", "/a", "a/"}) EXPECT_FALSE(ValidateCheckpointPath(path)) << path;
}

}  // namespace
}  // namespace skerry
