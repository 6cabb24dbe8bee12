#include "skerry/patch/cell_order.h"

#include <algorithm>

namespace skerry {

CellOrder::CellOrder(const Layout& layout) {
  const auto& tensors = layout.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].units() > 0) tensors_.push_back(i);
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [&](size_t a, size_t b) { return std::pair(tensors[a].dtype, a) < std::pair(tensors[b].dtype, b); });
  uint64_t cell = 0;
  for (const size_t ordinal : tensors_) {
    first_cells_.push_back(cell);
    cell += CellsOf(tensors[ordinal].units());
  }
  first_cells_.push_back(cell);
}

Result<std::vector<BlockRun>> CellOrder::RunsOf(const Layout& layout, uint64_t first, uint32_t cells) const {
  if (first >= this->cells() || cells > this->cells() - first) {
    return Fail(Code::kCorrupt, "cells {} to {} of {}", first, first + cells, this->cells());
  }
  auto i =
      static_cast<size_t>(std::upper_bound(first_cells_.begin(), first_cells_.end(), first) - first_cells_.begin() - 1);
  const DType dtype = layout.tensors()[tensors_[i]].dtype;
  std::vector<BlockRun> runs;
  for (uint64_t at = first, end = first + cells; at < end; ++i) {
    const LayoutTensor& tensor = layout.tensors()[tensors_[i]];
    if (tensor.dtype != dtype) {
      return Fail(Code::kCorrupt, "cells {} to {} are of {} and {}", first, end, DTypeName(dtype),
                  DTypeName(tensor.dtype));
    }
    const uint64_t stop = std::min(end, first_cells_[i + 1]);
    const uint64_t first_unit = (at - first_cells_[i]) * kCellUnits;
    const uint64_t units = std::min((stop - at) * kCellUnits, tensor.units() - first_unit);
    runs.push_back({.tensor = tensors_[i], .first_unit = first_unit, .units = units});
    at = stop;
  }
  return runs;
}

}  // namespace skerry
