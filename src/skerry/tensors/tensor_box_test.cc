#include "skerry/tensors/tensor_box.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

class TensorBoxTest : public ::testing::Test {
 protected:
  // One tensor whose units say their own number.
  static ModelSource Numbered(DType dtype, std::vector<uint64_t> shape) {
    uint64_t elements = 1;
    for (const uint64_t axis : shape) elements *= axis;
    TestTensor tensor{.name = "w", .dtype = dtype, .shape = std::move(shape), .bytes = {}};
    tensor.bytes.resize(elements * tensor.unit());
    for (uint64_t i = 0; i < elements; ++i) {
      std::memcpy(tensor.bytes.data() + i * tensor.unit(), &i, tensor.unit());
    }
    return ModelSource({.tensors = {std::move(tensor)}, .side_files = {}});
  }
  static Result<BoxView> View(const ModelSource& source, std::vector<uint64_t> start, std::vector<uint64_t> size) {
    return BoxView::Of(source, {{.tensor = 0, .start = std::move(start), .size = std::move(size)}});
  }
  static std::vector<uint32_t> Numbers(const BoxView& view, size_t box = 0) {
    Bytes scratch;
    const uint64_t bytes = view.layout().tensors()[box].bytes;
    const ByteSpan span = Must(view.Read(box, 0, bytes, scratch));
    std::vector<uint32_t> numbers(bytes / 4);
    std::memcpy(numbers.data(), span.data(), span.size());
    return numbers;
  }
};

TEST_F(TensorBoxTest, RowsAreOneRun) {
  const ModelSource source = Numbered(DType::kU32, {6, 4});
  const BoxView view = Must(View(source, {2, 0}, {2, 4}));
  EXPECT_EQ(view.layout().tensors()[0].name, "w[2:4,0:4]");
  EXPECT_EQ(view.runs(0).count(), 1u);
  EXPECT_EQ(view.runs(0).OffsetOf(0), 32u);
  EXPECT_EQ(Numbers(view), (std::vector<uint32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST_F(TensorBoxTest, ColumnsAreARunForEachRow) {
  const ModelSource source = Numbered(DType::kU32, {3, 8});
  const BoxView view = Must(View(source, {0, 2}, {3, 4}));
  EXPECT_EQ(view.runs(0).count(), 3u);
  EXPECT_EQ(view.runs(0).bytes(), 16u);
  EXPECT_EQ(Numbers(view), (std::vector<uint32_t>{2, 3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21}));
  EXPECT_EQ(view.runs(0).PlaceOf(20), 8 * 4 + 12u);  // the second of the second row
}

TEST_F(TensorBoxTest, TheMiddleOfThreeAxes) {
  const ModelSource source = Numbered(DType::kU32, {2, 4, 2});
  const BoxView view = Must(View(source, {0, 1, 0}, {2, 2, 2}));
  EXPECT_EQ(view.runs(0).count(), 2u);
  EXPECT_EQ(Numbers(view), (std::vector<uint32_t>{2, 3, 4, 5, 10, 11, 12, 13}));
}

TEST_F(TensorBoxTest, EveryCutOfARandomTensorIsThere) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<uint64_t> shape = {1 + random() % 5, 1 + random() % 5, 2 * (1 + random() % 4)};
    const ModelSource source = Numbered(DType::kU32, shape);
    std::vector<uint64_t> start, size;
    for (size_t axis = 0; axis < 3; ++axis) {
      const uint64_t step = axis == 2 ? 2 : 1;  // whole words
      start.push_back(random() % (shape[axis] / step) * step);
      size.push_back((1 + random() % ((shape[axis] - start[axis]) / step)) * step);
    }
    const BoxView view = Must(View(source, start, size));
    std::vector<uint32_t> expected;
    for (uint64_t a = start[0]; a < start[0] + size[0]; ++a) {
      for (uint64_t b = start[1]; b < start[1] + size[1]; ++b) {
        for (uint64_t c = start[2]; c < start[2] + size[2]; ++c) {
          expected.push_back(static_cast<uint32_t>((a * shape[1] + b) * shape[2] + c));
        }
      }
    }
    ASSERT_EQ(Numbers(view), expected);
    Bytes scratch;
    for (uint64_t at = 0; at < expected.size(); ++at) {
      const ByteSpan one = Must(view.Read(0, 4 * at, 4, scratch));
      ASSERT_EQ(LoadLe<uint32_t>(one.data()), expected[at]);
      ASSERT_EQ(view.runs(0).PlaceOf(4 * at), 4 * uint64_t{expected[at]});
    }
  }
}

TEST_F(TensorBoxTest, OnlyWholeWordsOfTheTensorCanBeCutOff) {
  const ModelSource source = Numbered(DType::kBF16, {10});
  Must(View(source, {0}, {4}));
  Must(View(source, {4}, {6}));  // to the end, which is no whole word
  EXPECT_THAT(View(source, {0}, {3}), Fails(Code::kCorrupt, HasSubstr("whole 8 bytes")));
  EXPECT_THAT(View(source, {3}, {7}), Fails(Code::kCorrupt, HasSubstr("whole 8 bytes")));
  const ModelSource rows = Numbered(DType::kBF16, {4, 6});
  Must(View(rows, {2, 0}, {2, 6}));
  EXPECT_THAT(View(rows, {0, 0}, {4, 4}), Fails(Code::kCorrupt, HasSubstr("whole 8 bytes")));  // rows of 12 bytes
}

TEST_F(TensorBoxTest, RefusesWhatIsNoBox) {
  const ModelSource source = Numbered(DType::kU32, {6, 4});
  EXPECT_THAT(View(source, {5, 0}, {2, 4}), Fails(Code::kCorrupt, HasSubstr("not within the tensor")));
  EXPECT_THAT(View(source, {UINT64_MAX, 0}, {2, 4}), Fails(Code::kCorrupt, HasSubstr("not within the tensor")));
  EXPECT_THAT(View(source, {0}, {2}), Fails(Code::kCorrupt, HasSubstr("number of axes")));
  EXPECT_THAT(View(source, {0, 0}, {0, 4}), Fails(Code::kCorrupt, HasSubstr("empty")));
  EXPECT_THAT(BoxView::Of(source, {{.tensor = 1, .start = {}, .size = {}}}), Fails(Code::kCorrupt));
  const TensorBox twice{.tensor = 0, .start = {0, 0}, .size = {2, 4}};
  EXPECT_THAT(BoxView::Of(source, {twice, twice}), Fails(Code::kCorrupt, HasSubstr("is there twice")));
}

TEST_F(TensorBoxTest, SaysWhichPartsOverlapOrAreMissing) {
  const ModelSource source = Numbered(DType::kU32, {6, 4});
  const auto rows = [](uint64_t from, uint64_t count) {
    return TensorBox{.tensor = 0, .start = {from, 0}, .size = {count, 4}};
  };
  const TensorBox left{.tensor = 0, .start = {0, 0}, .size = {6, 2}},
      right{.tensor = 0, .start = {0, 2}, .size = {6, 2}};
  Must(CheckBoxesApart(source.layout(), {rows(3, 3), rows(0, 3)}));
  Must(CheckBoxesApart(source.layout(), {right, left}));
  Must(CheckBoxesCover(source.layout(), {right, left}));
  EXPECT_THAT(CheckBoxesApart(source.layout(), {rows(0, 6), rows(5, 1)}), Fails(Code::kInvalid, HasSubstr("overlap")));
  EXPECT_THAT(CheckBoxesApart(source.layout(), {left, rows(2, 1)}),
              Fails(Code::kInvalid, HasSubstr("w[0:6,0:2] and w[2:3,0:4] overlap")));
  EXPECT_THAT(CheckBoxesApart(source.layout(), std::vector<TensorBox>(kMaxBoxesOfATensor + 1, rows(0, 1))),
              Fails(Code::kInvalid, HasSubstr("'w' has more than 4096 parts")));
  EXPECT_THAT(CheckBoxesCover(source.layout(), {rows(0, 3)}),
              Fails(Code::kInvalid, HasSubstr("'w' has 24 elements, but all its parts together 12")));
}

}  // namespace
}  // namespace skerry
