// Gathers the changes of a block cell by cell, and writes them by the cheapest method.
#ifndef SKERRY_PATCH_BLOCK_ENCODER_H_
#define SKERRY_PATCH_BLOCK_ENCODER_H_

#include <functional>
#include <span>
#include <vector>

#include "skerry/patch/block.h"
#include "skerry/patch/patch_file.h"
#include "skerry/patch/sparse_magnitude.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

struct EncodedBlock {
  BlockEntry entry;  // but for its place in file and model
  Bytes payload;
};

// One thread; buffers are reused between blocks.
class BlockEncoder {
 public:
  // `values` and, unless it is null, `magnitudes` describe `dtype` and outlive the encoder's use of them.
  void Begin(DType dtype, const SymbolTable* values, const MagnitudeModel* magnitudes);

  // Takes over the units at `positions` (rising, relative to the cell) as changed from `before` to `after`, the bytes
  // of the block's next cell, whose first 64-bit word is its tensor's word `first_word`. Returns by how much that moves
  // the tensor's running digest.
  RunningDigest AddCell(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, uint64_t first_word);

  uint64_t units() const { return units_; }
  size_t changed() const { return changes_.positions.size(); }

  // Writes the block, at least one change, and begins the next one. `read_after` gives all new bytes of the block's
  // units; it is asked where sending them may be cheapest.
  Result<EncodedBlock> Close(const std::function<Result<Bytes>()>& read_after);

  // A block of units that have no old value: `after` is all of them.
  static EncodedBlock Whole(DType dtype, ByteSpan after);

 private:
  template <typename T>
  RunningDigest TakeCell(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, uint64_t first_word);
  void Classify(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions);
  double FlatBits() const;
  double MagnitudeBits() const;

  DType dtype_ = DType::kU8;
  const SymbolTable* values_ = nullptr;
  const MagnitudeModel* magnitudes_ = nullptr;
  uint64_t units_ = 0;
  BlockChanges changes_;
  std::vector<StepToken> tokens_;  // a changed unit
  ClassedChanges classed_;         // a changed element
  std::vector<uint8_t> rows_;
  std::vector<uint32_t> codes_;  // numbers of the changed codes of a cell
};

}  // namespace skerry

#endif  // SKERRY_PATCH_BLOCK_ENCODER_H_
