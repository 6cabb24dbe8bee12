#include "skerry/relay/board_object.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "skerry/board/keys.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

const Digest kDigest = Sha256::Of(std::string_view("x"));
const std::string kDigits = kDigest.Hex().substr(0, 16);

TEST(BoardObject, IsReadFromEveryKeyThatReadersAskFor) {
  for (const char* name : {"grpo-1", "grpo-1/fp8-block"}) {
    const RunId run = Must(RunId::Parse(name));
    const Version v(7);
    const auto data = [&](bool anchor) { return BoardObject{ObjectKind::kData, run, v, anchor, kDigits}; };
    EXPECT_EQ(ReadBoardKey(HeadKey(run)), (BoardObject{.kind = ObjectKind::kHead, .run = run.Whole()}));
    EXPECT_EQ(ReadBoardKey(RunKey(run)), (BoardObject{.kind = ObjectKind::kRunInfo, .run = run}));
    EXPECT_EQ(ReadBoardKey(LayoutKey(run, kDigest)),
              (BoardObject{ObjectKind::kLayout, run, Version(), false, kDigest.Hex()}));
    EXPECT_EQ(ReadBoardKey(ManifestKey(run, v)),
              (BoardObject{.kind = ObjectKind::kManifest, .run = run, .version = v}));
    EXPECT_EQ(ReadBoardKey(StagedManifestKey(run, v, kDigest)),
              (BoardObject{ObjectKind::kManifest, run, v, false, kDigits}));
    EXPECT_EQ(ReadBoardKey(DeltaKey(run, v, 3, kDigest)), data(false));
    EXPECT_EQ(ReadBoardKey(SkipKey(run, v, Version(1), 0, kDigest)), data(false));
    EXPECT_EQ(ReadBoardKey(TensorDigestsKey(run, v, kDigest)), data(false));
    EXPECT_EQ(ReadBoardKey(AnchorDocumentKey(run, v, kDigest)),
              (BoardObject{ObjectKind::kAnchorDocument, run, v, true, kDigits}));
    EXPECT_EQ(ReadBoardKey(AnchorPartKey(run, v, 0, kDigest)), data(true));
    EXPECT_EQ(ReadBoardKey(Must(AnchorFileKey(run, v, kDigest, "a/b.json"))), data(true));
  }
  EXPECT_EQ(ReadBoardKey(BoardKey()), (BoardObject{.kind = ObjectKind::kBoardInfo}));
}

TEST(BoardObject, IsNothingElse) {
  const RunId run = Must(RunId::Parse("r"));
  for (const std::string& key :
       {LeaseKey(run, "reader"), CollectMarkKey(run), ProbePrefix("t") + "x",
        Must(PartReceiptKey(run, Version(1), "a", 0, 1)), std::string(), std::string("runs"), std::string("runs/r"),
        std::string("runs/r/"), std::string("runs/.r/head"), std::string("runs/r/views/v/head"),
        std::string("runs/r/versions/7/manifest.json"), std::string("runs/r/versions/000000007/manifest.txt"),
        std::string("runs/r/versions/000000007/delta-000.skerry"), std::string("runs/r/layouts/abc.json.zst"),
        std::string("runs/r/anchors/000000007/manifest.json"), std::string("runs/r/versions/00000000x/manifest.json"),
        std::string("runs/r/versions/000000007/sub/delta-000-0123456789abcdef.skerry"),
        std::string("runs/r/versions/000000007/delta-000-0123456789ABCDEF.skerry")}) {
    EXPECT_EQ(ReadBoardKey(key), std::nullopt) << key;
  }
}

RC_GTEST_PROP(BoardObject, IsOnlyReadFromValidKeys, ()) {
  const auto parts = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("runs", "r", "", ".", "..", "views", "versions", "anchors", "000000001", "head",
                                    "manifest.json", "anchor-0123456789abcdef.json", "0123456789abcdef", "a\nb", "x"));
  std::string key;
  for (const std::string& part : parts) key += (key.empty() ? "" : "/") + part;
  if (const auto object = ReadBoardKey(key)) {
    RC_ASSERT(ValidateKey(key).has_value());
    RC_ASSERT(key == BoardKey() || key.starts_with(RunPrefix(object->run)));
  }
}

}  // namespace
}  // namespace skerry
