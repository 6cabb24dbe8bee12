#include "skerry/base/mapped_file.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() { WriteText(path_, AsText(content_)); }

  Random random_{1};
  Bytes content_ = RandomBytes(100'001, random_);
  TempDir directory_;
  Path path_ = directory_ / "data";
};

// Reads every byte, whatever becomes of the sum.
uint64_t SumOf(ByteSpan bytes) {
  volatile uint64_t sum = 0;
  for (const std::byte b : bytes) sum = sum + std::to_integer<uint64_t>(b);
  return sum;
}

TEST_F(MappedFileTest, ShowsTheFileAndWritesThrough) {
  MappedFile mapping = Must(MappedFile::Map(Must(File::OpenForWriting(path_)), /*writable=*/true));
  ASSERT_EQ(ToBytes(mapping.bytes()), content_);
  mapping.bytes()[50'000] ^= std::byte{1};
  Must(mapping.Sync());
  content_[50'000] ^= std::byte{1};
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptyMapping) {
  WriteText(path_, "");
  const MappedFile mapping = Must(MappedFile::Map(Must(File::OpenForReading(path_)), false));
  EXPECT_TRUE(mapping.bytes().empty());
  EXPECT_THAT(mapping.Check(), Succeeds());
  EXPECT_THAT(mapping.Sync(), Succeeds());
}

TEST_F(MappedFileTest, B15_AFileThatShrinksUnderItIsAnErrorWithItsPathAndNoSignal) {
  const MappedFile mapping = Must(MappedFile::Map(Must(File::OpenForReading(path_)), false));
  EXPECT_THAT(mapping.Check(), Succeeds());
  std::filesystem::resize_file(path_, 40'000);
  EXPECT_EQ(SumOf(mapping.bytes().first(40'000)), SumOf(ByteSpan(content_).first(40'000)));
  EXPECT_THAT(mapping.Check(), Succeeds()) << "nothing beyond the new end was touched yet";
  SumOf(mapping.bytes());
  EXPECT_THAT(mapping.Check(), Fails(Code::kIo, HasSubstr(path_.string())));
}

TEST_F(MappedFileTest, B15_AWriteBeyondTheNewEndIsAnErrorAndNoSignal) {
  const MappedFile mapping = Must(MappedFile::Map(Must(File::OpenForWriting(path_)), true));
  std::filesystem::resize_file(path_, 0);
  mapping.bytes()[99'999] = std::byte{1};
  EXPECT_THAT(mapping.Sync(), Fails(Code::kIo));
}

TEST_F(MappedFileTest, AFaultOfOneMappingIsNotTheNextOnes) {
  for (int i = 0; i < 3; ++i) {
    WriteText(path_, AsText(content_));
    MappedFile broken = Must(MappedFile::Map(Must(File::OpenForReading(path_)), false));
    WriteText(directory_ / "other", AsText(content_));
    const MappedFile whole = Must(MappedFile::Map(Must(File::OpenForReading(directory_ / "other")), false));
    std::filesystem::resize_file(path_, 0);
    SumOf(broken.bytes());
    EXPECT_EQ(SumOf(whole.bytes()), SumOf(content_));
    EXPECT_FALSE(broken.Check());
    EXPECT_THAT(whole.Check(), Succeeds());
    const MappedFile moved = std::move(broken);
    EXPECT_FALSE(moved.Check()) << "the fault moves along";
    EXPECT_THAT(broken.Check(), Succeeds());  // NOLINT: it is empty now
  }
}

TEST_F(MappedFileTest, ReaderReadsRangesAndRefusesOthers) {
  const FileReader reader = Must(FileReader::Open(path_));
  EXPECT_TRUE(reader.is_mapped());
  EXPECT_EQ(reader.size(), content_.size());
  Bytes scratch;
  EXPECT_EQ(ToBytes(Must(reader.Read(77, 1000, scratch))), Bytes(content_.begin() + 77, content_.begin() + 1077));
  EXPECT_TRUE(scratch.empty()) << "no copy";
  EXPECT_THAT(reader.Read(content_.size(), 0, scratch), Succeeds());
  EXPECT_THAT(reader.Read(content_.size(), 1, scratch), Fails(Code::kCorrupt, HasSubstr(path_.string())));
  EXPECT_THAT(reader.Read(1, ~uint64_t{0}, scratch), Fails(Code::kCorrupt));
  EXPECT_THAT(FileReader::Open(directory_ / "none"), Fails(Code::kNotFound));
}

TEST_F(MappedFileTest, B18_WhereMappingIsRefusedReaderGivesTheSameBytes) {
  const WithFailpoints with("file.map:errno=12");
  EXPECT_THAT(MappedFile::Map(Must(File::OpenForReading(path_)), false), Fails(Code::kIo));
  const FileReader reader = Must(FileReader::Open(path_));
  EXPECT_FALSE(reader.is_mapped());
  Bytes scratch;
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{0, 100'001}, {1, 17}, {99'999, 2}, {5, 0}}) {
    EXPECT_EQ(ToBytes(Must(reader.Read(offset, length, scratch))),
              Bytes(content_.begin() + static_cast<ptrdiff_t>(offset),
                    content_.begin() + static_cast<ptrdiff_t>(offset + length)));
  }
  EXPECT_THAT(reader.Read(100'000, 2, scratch), Fails(Code::kCorrupt));
  std::filesystem::resize_file(path_, 10);
  EXPECT_THAT(reader.Read(0, 100, scratch), Fails(Code::kCorrupt, HasSubstr(path_.string())));
}

}  // namespace
}  // namespace skerry
