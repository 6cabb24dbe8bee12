#include "skerry/patch/cell_order.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {

bool operator==(const BlockRun& a, const BlockRun& b) {
  return a.tensor == b.tensor && a.first_unit == b.first_unit && a.units == b.units;
}
void PrintTo(const BlockRun& run, std::ostream* out) {
  *out << fmt::format("tensor {} from {}, {} units", run.tensor, run.first_unit, run.units);
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layout LayoutOf(const std::vector<std::pair<DType, uint64_t>>& tensors) {
  TestModel model;
  for (const auto& [dtype, elements] : tensors) {
    const uint64_t bytes = elements * static_cast<uint64_t>(DTypeBits(dtype)) / 8;
    model.tensors.push_back({fmt::format("t{:03}", model.tensors.size()), dtype, {elements}, Bytes(bytes)});
  }
  return ModelSource(model).layout();
}

// 2 cells of BF16, U8, BF16, none at all, U8, and F4, of which a unit is a byte: two codes.
const Layout& Mixed() {
  static const Layout layout = LayoutOf({{DType::kBF16, 70'000},
                                         {DType::kU8, 3},
                                         {DType::kBF16, 5},
                                         {DType::kF32, 0},
                                         {DType::kU8, 65'536},
                                         {DType::kF4, 140'000}});
  return layout;
}

TEST(CellOrder, TensorsOfADtypeStandTogetherInLayoutOrder) {
  const CellOrder order(Mixed());
  EXPECT_THAT(order.tensors(), ElementsAre(1, 4, 0, 2, 5)) << "U8, BF16, F4 by code; the empty one has no cell";
  EXPECT_EQ(order.cells(), 7u);
  std::vector<uint64_t> first;
  for (size_t i = 0; i < order.tensors().size(); ++i) first.push_back(order.first_cell(i));
  EXPECT_THAT(first, ElementsAre(0, 1, 2, 4, 5));
}

TEST(CellOrder, ARunEndsWithItsTensor) {
  const CellOrder order(Mixed());
  EXPECT_THAT(Must(order.RunsOf(Mixed(), 0, 1)), ElementsAre(BlockRun{1, 0, 3}));
  EXPECT_THAT(Must(order.RunsOf(Mixed(), 0, 2)), ElementsAre(BlockRun{1, 0, 3}, BlockRun{4, 0, 65'536}));
  EXPECT_THAT(Must(order.RunsOf(Mixed(), 2, 1)), ElementsAre(BlockRun{0, 0, 65'536}));
  EXPECT_THAT(Must(order.RunsOf(Mixed(), 2, 3)), ElementsAre(BlockRun{0, 0, 70'000}, BlockRun{2, 0, 5}));
  EXPECT_THAT(Must(order.RunsOf(Mixed(), 3, 2)), ElementsAre(BlockRun{0, 65'536, 4'464}, BlockRun{2, 0, 5}));
  EXPECT_THAT(Must(order.RunsOf(Mixed(), 5, 2)), ElementsAre(BlockRun{5, 0, 70'000}));
}

TEST(CellOrder, RefusesCellsOfTwoDtypes) {
  const CellOrder order(Mixed());
  EXPECT_THAT(order.RunsOf(Mixed(), 1, 2), Fails(Code::kCorrupt, HasSubstr("cells 1 to 3 are of U8 and BF16")));
  EXPECT_THAT(order.RunsOf(Mixed(), 0, 7), Fails(Code::kCorrupt, HasSubstr("U8 and BF16")));
  EXPECT_THAT(order.RunsOf(Mixed(), 4, 2), Fails(Code::kCorrupt, HasSubstr("BF16 and F4")));
}

TEST(CellOrder, RefusesCellsThatAreNotThere) {
  const CellOrder order(Mixed());
  EXPECT_THAT(order.RunsOf(Mixed(), 7, 1), Fails(Code::kCorrupt, HasSubstr("of 7")));
  EXPECT_THAT(order.RunsOf(Mixed(), 6, 2), Fails(Code::kCorrupt));
  EXPECT_THAT(order.RunsOf(Mixed(), ~uint64_t{0}, 1), Fails(Code::kCorrupt));
  EXPECT_THAT(order.RunsOf(Mixed(), ~uint64_t{0} - 3, 64), Fails(Code::kCorrupt));
}

TEST(CellOrder, AModelWithoutUnitsHasNoCells) {
  const Layout layout = LayoutOf({{DType::kF32, 0}, {DType::kU8, 0}});
  const CellOrder order(layout);
  EXPECT_THAT(order.tensors(), IsEmpty());
  EXPECT_EQ(order.cells(), 0u);
  EXPECT_THAT(order.RunsOf(layout, 0, 1), Fails(Code::kCorrupt));
}

// Any way of cutting the cells into blocks of one dtype names every unit of the model once.
RC_GTEST_PROP(CellOrder, EveryUnitIsInExactlyOneCell, ()) {
  std::vector<std::pair<DType, uint64_t>> tensors;
  for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
    const auto dtype = *rc::gen::element(DType::kU8, DType::kI8, DType::kF4);
    tensors.emplace_back(dtype, *rc::gen::element<uint64_t>(0, 2, 65'534, 65'536, 65'538, 131'072, 200'000));
  }
  const Layout layout = LayoutOf(tensors);
  const CellOrder order(layout);
  std::vector<uint64_t> next(layout.tensors().size());
  for (uint64_t cell = 0; cell < order.cells();) {
    const auto cells = *rc::gen::inRange<uint32_t>(1, 5);
    const auto runs = order.RunsOf(layout, cell, cells);
    if (!runs) {  // it spans two dtypes, or is past the end: cell by cell
      for (const BlockRun& run : Must(order.RunsOf(layout, cell, 1))) {
        RC_ASSERT(run.first_unit == next[run.tensor]);
        next[run.tensor] += run.units;
      }
      cell += 1;
      continue;
    }
    for (const BlockRun& run : *runs) {
      RC_ASSERT(run.first_unit == next[run.tensor]);
      next[run.tensor] += run.units;
    }
    cell += cells;
  }
  for (size_t i = 0; i < next.size(); ++i) RC_ASSERT(next[i] == layout.tensors()[i].units());
}

}  // namespace
}  // namespace skerry
