#include "skerry/publish/capture.h"

#include "skerry/diff/narrow.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Bytes All(const TensorSource& source, size_t ordinal) {
  Bytes scratch;
  const ByteSpan bytes = Must(source.Read(ordinal, 0, source.layout().tensors()[ordinal].bytes, scratch));
  return Bytes(bytes.begin(), bytes.end());
}

class CaptureTest : public ::testing::Test {
 protected:
  Capture Begin(int threads = 2) const { return Capture(snapshot_, 1, threads); }
  static Status TakeWhole(Capture& capture, const ModelSource& now, size_t ordinal) {
    const TestTensor& tensor = now.tensor(ordinal);
    return capture.Take(ordinal, 0, tensor.dtype, tensor.bytes);
  }

  Random random_{3};
  TestModel model_ = SmallModel(random_);
  const ModelSource snapshot_{model_};
};

TEST_F(CaptureTest, ReadsAsWhatWasTakenWhereverItIsRead) {
  for (const double density : {0.0, 0.01, 0.6, 1.0}) {
    model_.Nudge(density, random_);
    const ModelSource now(model_);
    Capture capture = Begin();
    for (size_t i = 0; i < now.layout().tensors().size(); ++i) Must(TakeWhole(capture, now, i));
    EXPECT_THAT(capture.Untaken(), IsEmpty());
    for (size_t i = 0; i < now.layout().tensors().size(); ++i) {
      const Bytes& bytes = now.tensor(i).bytes;
      ASSERT_EQ(All(capture, i), bytes) << density;
      for (int round = 0; round < 50 && !bytes.empty(); ++round) {
        const uint64_t offset = random_() % bytes.size(), length = random_() % (bytes.size() - offset) + 1;
        Bytes scratch;
        const ByteSpan part = Must(capture.Read(i, offset, length, scratch));
        ASSERT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + static_cast<ptrdiff_t>(offset)));
        ASSERT_EQ(part.size(), length);
      }
    }
  }
}

TEST_F(CaptureTest, KeepsOnlyWhatDiffers) {
  const ModelSource before(model_);
  const size_t changed = model_.Nudge(0.01, random_);
  const ModelSource now(model_);
  Capture capture = Begin();
  for (size_t i = 0; i < now.layout().tensors().size(); ++i) Must(TakeWhole(capture, now, i));
  EXPECT_EQ(capture.changed(), changed);
  EXPECT_LT(capture.kept_bytes(), now.layout().total_bytes() / 5);
  // What did not change is not even copied.
  Capture same = Begin();
  for (size_t i = 0; i < before.layout().tensors().size(); ++i) {
    Must(TakeWhole(same, before, i));
    Bytes mine, theirs;
    const uint64_t bytes = before.layout().tensors()[i].bytes;
    EXPECT_EQ(Must(same.Read(i, 0, bytes, mine)).data(), Must(snapshot_.Read(i, 0, bytes, theirs)).data());
  }
  EXPECT_EQ(same.changed(), 0u);
}

// F32 masters are rounded, and a step that is absorbed leaves no change.
TEST_F(CaptureTest, RoundsMastersToTheServedDType) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const TestTensor masters = RandomTensor("w", DType::kF32, {70'001}, random_);
    TestTensor served{.name = "w", .dtype = dtype, .shape = {70'001}, .bytes = Bytes(2 * 70'001)};
    NarrowF32Scalar(masters.bytes.data(), 70'001, dtype, served.bytes.data());
    const TestModel model{.tensors = {served}, .side_files = {}};
    const ModelSource snapshot(model);
    Capture capture(snapshot, 1, 1);
    Must(capture.Take(0, 0, DType::kF32, masters.bytes));
    EXPECT_EQ(capture.changed(), 0u);
    EXPECT_THAT(Capture(snapshot, 1, 1).Take(0, 0, DType::kF64, Bytes(8 * 70'001)),
                Fails(Code::kInvalid, HasSubstr("F64 can't be served as that")));
  }
}

TEST_F(CaptureTest, TakesATensorInPieces) {
  TestModel model{.tensors = {RandomTensor("big", DType::kBF16, {300, 1000}, random_)}, .side_files = {}};
  const ModelSource snapshot(model);
  model.Nudge(0.02, random_);
  const ByteSpan bytes = model.tensors[0].bytes;
  std::vector<uint64_t> cuts = {0, 1, 999, 65'536, 65'537, 200'000, 300'000};
  std::vector<size_t> order = {3, 0, 5, 2, 4, 1};
  Capture capture(snapshot, 1, 2);
  for (const size_t i : order) {
    EXPECT_EQ(capture.Untaken(), std::vector<size_t>{0});
    Must(capture.Take(0, cuts[i], DType::kBF16, bytes.subspan(2 * cuts[i], 2 * (cuts[i + 1] - cuts[i]))));
  }
  EXPECT_THAT(capture.Untaken(), IsEmpty());
  EXPECT_EQ(All(capture, 0), model.tensors[0].bytes);
  EXPECT_THAT(capture.Take(0, 5, DType::kBF16, Bytes(2)), Fails(Code::kInvalid, HasSubstr("5 to 6 are given twice")));
}

TEST_F(CaptureTest, NamesTheTensorThatDoesNotFit) {
  Capture capture = Begin();
  const LayoutTensor& first = capture.layout().tensors()[0];
  EXPECT_THAT(capture.Take(0, first.units(), first.dtype, Bytes(8)),
              Fails(Code::kInvalid, HasSubstr("tensor '" + first.name + "'")));
  EXPECT_THAT(capture.Take(999, 0, first.dtype, Bytes(8)), Fails(Code::kInvalid, HasSubstr("tensor 999 of a model")));
  EXPECT_EQ(capture.Untaken().size(),
            capture.layout().tensors().size() -
                static_cast<size_t>(std::count_if(capture.layout().tensors().begin(), capture.layout().tensors().end(),
                                                  [](const LayoutTensor& tensor) { return tensor.bytes == 0; })));
}

}  // namespace
}  // namespace skerry
