#include "skerry/board/byte_source.h"

#include <gtest/gtest.h>

#include "skerry/board/board_testing.h"

namespace skerry {
namespace {

std::string ReadText(const ByteSource& source, uint64_t offset, size_t size) {
  Bytes out(size);
  const Status read = source.Read(offset, out);
  return read ? ToString(out) : "<" + CodeOf(read) + ">";
}

TEST(ByteSource, ReadsRangesOfMemoryAndFilesAlike) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch.path() / "f", AsBytes("0123456789")));
  const MemorySource memory("0123456789");
  const FileSource file = FileSource::Open(scratch.path() / "f").value();
  for (const ByteSource* source : {static_cast<const ByteSource*>(&memory), static_cast<const ByteSource*>(&file)}) {
    EXPECT_EQ(source->size(), 10u);
    EXPECT_EQ(ReadText(*source, 2, 3), "234");
    EXPECT_EQ(ReadText(*source, 10, 0), "");
    EXPECT_EQ(ReadText(*source, 8, 3), "<corrupt>");
    EXPECT_EQ(ReadText(*source, UINT64_MAX, 2), "<corrupt>");
    EXPECT_EQ(DigestOf(*source).value(), Sha256::Of("0123456789"));
  }
  EXPECT_EQ(memory.AsFile(), nullptr);
  EXPECT_EQ(file.AsFile(), &file);
  EXPECT_FALSE(file.may_hard_link());
}

TEST(FileSource, ReportsAMissingFile) { EXPECT_EQ(CodeOf(FileSource::Open("/nonexistent/file")), "not_found"); }

TEST(DigestOf, CoversSourcesOfSeveralBlocksAndNone) {
  const std::string big(3'000'001, 'x');
  EXPECT_EQ(DigestOf(MemorySource(big)).value(), Sha256::Of(big));
  EXPECT_EQ(DigestOf(MemorySource("")).value(), Sha256::Of(""));
}

}  // namespace
}  // namespace skerry
