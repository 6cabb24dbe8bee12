#include "skerry/relay/digest_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/results.h"

namespace skerry {
namespace {

bool All(const std::string&) { return true; }

TEST(DigestList, OutlivesARestartAndATornLine) {
  const Path path = Path(testing::TempDir()) / "digest_list";
  std::filesystem::remove(path);
  const Digest a = Sha256::Of("a"), b = Sha256::Of("b");
  {
    DigestList list(path, All);
    EXPECT_EQ(list.Find("x"), std::nullopt);
    list.Add("x", b);
    list.Add("x", a);
    list.Add("y/z", b);
    list.Add("gone", b);
    EXPECT_EQ(list.Find("x"), a);
  }
  const std::string text = ToString(Must(ReadFile(path, 1 << 20)));
  EXPECT_THAT(text, testing::HasSubstr(b.Hex() + "  y/z\n")) << "as sha256sum prints it";
  Must(WriteFileAtomically(path, AsBytes(text + "rubbish\n" + a.Hex() + "  torn")));
  const DigestList again(path, [](const std::string& key) { return key != "gone"; });
  EXPECT_EQ(again.Find("x"), a);
  EXPECT_EQ(again.Find("y/z"), b);
  EXPECT_EQ(again.Find("gone"), std::nullopt);
  EXPECT_EQ(again.Find("torn"), std::nullopt);
  EXPECT_THAT(ToString(Must(ReadFile(path, 1 << 20))), testing::Not(testing::HasSubstr("torn")));
}

}  // namespace
}  // namespace skerry
