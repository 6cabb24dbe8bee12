// Where the cells of a model are: they are numbered tensor by tensor, the tensors of one dtype after another.
#ifndef SKERRY_PATCH_CELL_ORDER_H_
#define SKERRY_PATCH_CELL_ORDER_H_

#include <cstdint>
#include <vector>

#include "skerry/base/result.h"
#include "skerry/patch/format.h"
#include "skerry/tensors/layout.h"

namespace skerry {

// Units of one tensor, from a cell's first on.
struct BlockRun {
  size_t tensor = 0;  // ordinal in the layout
  uint64_t first_unit = 0;
  uint64_t units = 0;
};

// Tensors by dtype code, and in layout order within a dtype: so that a block may span small tensors, of which a model
// of experts has tens of thousands.
class CellOrder {
 public:
  explicit CellOrder(const Layout& layout);

  // Ordinals of the tensors that have cells, in the order of their cells.
  const std::vector<size_t>& tensors() const { return tensors_; }
  // Number of the first cell of tensors()[i].
  uint64_t first_cell(size_t i) const { return first_cells_[i]; }
  uint64_t cells() const { return first_cells_.back(); }

  // The runs that make up the cells from `first` on, one a tensor. kCorrupt when there are no such cells, or their
  // dtypes differ.
  Result<std::vector<BlockRun>> RunsOf(const Layout& layout, uint64_t first, uint32_t cells) const;

 private:
  std::vector<size_t> tensors_;
  std::vector<uint64_t> first_cells_;  // and the number of cells
};

}  // namespace skerry

#endif  // SKERRY_PATCH_CELL_ORDER_H_
