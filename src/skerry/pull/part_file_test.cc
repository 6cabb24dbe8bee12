#include "skerry/pull/part_file.h"

#include <rapidcheck/gtest.h>

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PartFileTest : public ::testing::Test {
 protected:
  PartFile Open(bool out_of_order) {
    PartFile part = Must(PartFile::Open(path_, object_));
    Must(part.Begin(out_of_order));
    return part;
  }
  void Bring(PartFile& part, uint64_t begin, uint64_t end) {
    Must(part.Write(begin, ByteSpan(content_).subspan(begin, end - begin)));
    Must(part.Note({begin, end}));
  }
  std::string Record() { return ReadText(path_.string() + ".part.ranges"); }

  Random random_{1};
  Bytes content_ = RandomBytes(1000, random_);
  ObjectRef object_{.key = "o", .uri = {}, .size = 1000, .sha256 = Sha256::Of(content_)};
  TempDir directory_;
  Path path_ = directory_ / "o";
};

TEST_F(PartFileTest, GoesOnWithWhatCameInAnyOrder) {
  {
    PartFile part = Open(true);
    EXPECT_THAT(part.Missing(400), ElementsAre(ByteRange{0, 400}, ByteRange{400, 800}, ByteRange{800, 1000}));
    Bring(part, 800, 1000);
    Bring(part, 400, 600);
    EXPECT_EQ(part.Prefix(), 0u);
  }
  PartFile part = Open(false);
  EXPECT_TRUE(part.out_of_order()) << "what is there has gaps";
  EXPECT_EQ(part.present(), 400u);
  EXPECT_THAT(part.Missing(400), ElementsAre(ByteRange{0, 400}, ByteRange{600, 800}));
  Bring(part, 600, 800);
  Bring(part, 0, 400);
  EXPECT_THAT(part.Missing(400), IsEmpty());
  EXPECT_EQ(part.Prefix(), 1000u);
  Must(part.Finish());
  EXPECT_EQ(ReadText(path_), AsText(content_));
  EXPECT_THAT(NamesIn(directory_.path()), ElementsAre("o"));
}

TEST_F(PartFileTest, TheLengthOfAFileWithoutARecordSaysWhatHasCome) {
  WriteText(path_.string() + ".part", AsText(content_).substr(0, 300));
  {
    PartFile part = Open(true);
    EXPECT_EQ(part.Prefix(), 300u);
    EXPECT_EQ(part.length(), 1000u) << "the room is taken";
  }
  EXPECT_EQ(Open(true).Prefix(), 300u) << "and the record says so, now that the length does not";
}

TEST_F(PartFileTest, ARecordCountsAsFarAsItMakesSense) {
  {
    PartFile part = Open(true);
    Bring(part, 100, 200);
  }
  const std::string whole = Record();
  const auto with_record = [&](const std::string& record) {
    WriteText(path_.string() + ".part.ranges", record);
    return Open(true).present();
  };
  EXPECT_EQ(with_record(whole), 100u);
  EXPECT_EQ(with_record(whole + "300 4"), 100u) << "a torn line";
  EXPECT_EQ(with_record(whole + "300 1001\n400 400\n500 450\n-1 4\n7\n1 2 3\n\n"), 100u);
  EXPECT_EQ(with_record(whole + "600 700\n"), 200u);
  EXPECT_EQ(with_record(whole.substr(0, 20)), 0u);
  EXPECT_EQ(with_record(""), 0u);
  std::string foreign = whole;
  foreign[20] = foreign[20] == 'a' ? 'b' : 'a';
  EXPECT_EQ(with_record(foreign), 0u) << "of another object";
}

TEST_F(PartFileTest, AfterATornLineTheRecordGoesOnWhereItMadeSense) {
  {
    PartFile part = Open(true);
    Bring(part, 0, 10);
  }
  WriteText(path_.string() + ".part.ranges", Record() + "20 3");
  {
    PartFile part = Open(true);
    Bring(part, 20, 30);
  }
  EXPECT_THAT(Open(true).Missing(1000), ElementsAre(ByteRange{10, 20}, ByteRange{30, 1000}));
}

TEST_F(PartFileTest, ARecordOfMoreThanTheFileHasIsNotBelieved) {
  {
    PartFile part = Open(true);
    Bring(part, 0, 1000);
  }
  std::filesystem::resize_file(path_.string() + ".part", 500);
  EXPECT_EQ(Open(true).present(), 0u);
}

TEST_F(PartFileTest, ThereIsOneOwnerAtATime) {
  const PartFile part = Open(true);
  EXPECT_TRUE(IsPinned(path_.string() + ".part"));
  EXPECT_FALSE(RemoveUnlessPinned(path_.string() + ".part"));
}

RC_GTEST_PROP(PartFileProperty, ExactlyWhatIsNotThereIsMissing, ()) {
  const TempDir directory;
  constexpr uint64_t kSize = 60;
  const Bytes content(kSize);
  const ObjectRef object{.key = "o", .uri = {}, .size = kSize, .sha256 = Sha256::Of(content)};
  std::vector<bool> there(kSize);
  std::optional<PartFile> part;
  const auto most = *rc::gen::inRange<uint64_t>(1, 2 * kSize);
  for (int i = *rc::gen::inRange(1, 20); i > 0; --i) {
    if (!part || *rc::gen::inRange(0, 4) == 0) {
      part.reset();  // a kill
      part.emplace(Must(PartFile::Open(directory / "o", object)));
      Must(part->Begin(true));
    }
    const auto begin = *rc::gen::inRange<uint64_t>(0, kSize), end = *rc::gen::inRange<uint64_t>(begin + 1, kSize + 1);
    Must(part->Note({begin, end}));
    for (uint64_t at = begin; at < end; ++at) there[at] = true;
    std::vector<bool> missing(kSize);
    uint64_t last = 0;
    for (const ByteRange& range : part->Missing(most)) {
      RC_ASSERT(range.begin >= last && range.begin < range.end && range.size() <= most);
      last = range.end;
      for (uint64_t at = range.begin; at < range.end; ++at) missing[at] = true;
    }
    for (uint64_t at = 0; at < kSize; ++at) RC_ASSERT(missing[at] != there[at]);
    RC_ASSERT(part->present() == static_cast<uint64_t>(std::count(there.begin(), there.end(), true)));
  }
}

}  // namespace
}  // namespace skerry
