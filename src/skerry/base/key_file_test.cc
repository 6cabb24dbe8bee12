#include "skerry/base/key_file.h"

#include <sys/stat.h>

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

unsigned ModeOf(const Path& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

TEST(KeyFile, APairComesBackAndOnlyTheOwnerCanReadThePrivateHalf) {
  const TempDir directory;
  const PrivateKey key = Must(PrivateKey::Generate());
  Must(WriteKeyPair(directory / "key", key));
  EXPECT_THAT(NamesIn(directory.path()), ElementsAre("key", "key.pub"));
  EXPECT_EQ(ModeOf(directory / "key"), 0600u);
  const PrivateKeyFile read = Must(ReadPrivateKeyFile(directory / "key"));
  EXPECT_THAT(read.warning, IsEmpty());
  EXPECT_EQ(read.key.Sign(AsBytes("x")), key.Sign(AsBytes("x")));
  EXPECT_EQ(Must(ReadPublicKeyFile(directory / "key.pub")), key.public_key());
}

TEST(KeyFile, NeverOverwrites) {
  const TempDir directory;
  const PrivateKey key = Must(PrivateKey::Generate());
  WriteText(directory / "a", "there");
  EXPECT_THAT(WriteKeyPair(directory / "a", key), Fails(Code::kConflict, HasSubstr("/a is there")));
  WriteText(directory / "b.pub", "there");
  EXPECT_THAT(WriteKeyPair(directory / "b", key), Fails(Code::kConflict, HasSubstr("/b.pub is there")));
  std::filesystem::create_symlink(directory / "elsewhere", directory / "c");
  EXPECT_THAT(WriteKeyPair(directory / "c", key), Fails(Code::kConflict, HasSubstr("/c is there")));
  EXPECT_THAT(NamesIn(directory.path()), ElementsAre("a", "b.pub", "c"));
  EXPECT_EQ(ReadText(directory / "a"), "there");
}

TEST(KeyFile, AFileWithTheSameNameThatAppearsMeanwhileIsKept) {
  const TempDir directory;
  WriteText(directory / "f", "there");
  EXPECT_THAT(File::CreateNew(directory / "f", 0600), Fails(Code::kConflict));
  EXPECT_EQ(ReadText(directory / "f"), "there");
}

TEST(KeyFile, WarnsWhenOthersMayUseThePrivateHalf) {
  const TempDir directory;
  Must(WriteKeyPair(directory / "key", Must(PrivateKey::Generate())));
  for (const auto& [mode, text] : {std::pair(0640, "0640"), std::pair(0604, "0604")}) {
    ASSERT_EQ(::chmod((directory / "key").c_str(), mode), 0);
    EXPECT_THAT(Must(ReadPrivateKeyFile(directory / "key")).warning, AllOf(HasSubstr("/key"), HasSubstr(text)));
  }
  ASSERT_EQ(::chmod((directory / "key").c_str(), 0400), 0);
  EXPECT_THAT(Must(ReadPrivateKeyFile(directory / "key")).warning, IsEmpty());
}

TEST(KeyFile, APublicKeyMayStandThereAsText) {
  const TempDir directory;
  const PublicKey key = Must(PrivateKey::Generate()).public_key();
  WriteText(directory / "key", "\n " + key.Text() + "\r\n");
  EXPECT_EQ(Must(ReadPublicKeyFile(directory / "key")), key);
  WriteText(directory / "two", key.Text() + "\n" + key.Text() + "\n");
  EXPECT_THAT(ReadPublicKeyFile(directory / "two"), Fails(Code::kInvalid, HasSubstr("/two")));
  WriteText(directory / "empty", "");
  EXPECT_THAT(ReadPublicKeyFile(directory / "empty"), Fails(Code::kInvalid, HasSubstr("/empty")));
}

TEST(KeyFile, TakingOneHalfForTheOtherIsSaidAndShowsNoSecret) {
  const TempDir directory;
  Must(WriteKeyPair(directory / "key", Must(PrivateKey::Generate())));
  const std::string secret = ReadText(directory / "key").substr(28, 64);
  EXPECT_THAT(ReadPublicKeyFile(directory / "key"),
              Fails(Code::kInvalid, AllOf(HasSubstr("private key"), HasSubstr("/key.pub"), Not(HasSubstr(secret)))));
  EXPECT_THAT(ReadPrivateKeyFile(directory / "key.pub"), Fails(Code::kInvalid, HasSubstr("/key.pub: it holds no")));
}

TEST(KeyFile, RefusesAMissingAndAnOverlongFile) {
  const TempDir directory;
  EXPECT_THAT(ReadPrivateKeyFile(directory / "none"), Fails(Code::kNotFound, HasSubstr("/none")));
  WriteText(directory / "long", std::string(kMaxKeyFileBytes + 1, ' '));
  EXPECT_THAT(ReadPublicKeyFile(directory / "long"), Fails(Code::kCorrupt, HasSubstr("limit")));
}

}  // namespace
}  // namespace skerry
