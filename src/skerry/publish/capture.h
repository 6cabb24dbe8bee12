// What a trainer's weights are now, kept as what differs from the snapshot: the trainer may go on and overwrite them.
#ifndef SKERRY_PUBLISH_CAPTURE_H_
#define SKERRY_PUBLISH_CAPTURE_H_

#include <cstdint>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/diff/fp8_block.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// Elements that were taken are cast to the tensor's dtype and compared with the snapshot at once, in one pass; only the
// differing ones are kept: some per mille of the model's bytes, at most all of them.
//
// Take may be called for different tensors from several threads; nothing else beside it. What is not taken reads as in
// the snapshot.
class Capture : public TensorSource {
 public:
  // `snapshot` must stay as it is for as long as the capture is used. `generation` says which one it is (snapshot.h).
  Capture(const TensorSource& snapshot, uint64_t generation, int threads);
  Capture(Capture&&) noexcept = default;

  uint64_t generation() const { return generation_; }
  const Layout& layout() const override { return snapshot_->layout(); }

  // Takes elements of tensor `ordinal` (in layout()), from element `first` on in row-major order, as many as `values`
  // holds: of the tensor's own dtype, bit for bit, or F32 for a tensor of BF16 or F16, which are rounded
  // (diff/narrow.h). Of types that pack several elements into bytes, `first` counts bytes. kInvalid, naming the tensor,
  // for another dtype, values beyond its end, and elements that were taken before. `values` may be overwritten once it
  // returns.
  Status Take(size_t ordinal, uint64_t first, DType dtype, ByteSpan values);

  // Takes a matrix and its scales together, as FP8 in blocks (diff/fp8_block.h): `weight` is the ordinal of a tensor of
  // F8_E4M3 [rows, columns], `scale` that of F32 or F8_E8M0 [rows / 128, columns / 128], both rounded up, and `values`
  // the whole matrix, row-major, of F32 or BF16. The scales that the snapshot has are those that kFrozen keeps. Returns
  // how many blocks have another scale than in the snapshot. kInvalid, with neither taken, naming the tensor, for other
  // dtypes and shapes, tensors of which something was taken before, and an element that is NaN or infinite.
  Result<uint64_t> TakeFp8Block(size_t weight, size_t scale, DType dtype, ByteSpan values, Fp8Scales policy);

  // Ordinals of tensors that were not taken, or not as a whole.
  std::vector<size_t> Untaken() const;
  // Storage units that differ from the snapshot.
  uint64_t changed() const;
  // Bytes that are kept.
  uint64_t kept_bytes() const;

  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override;
  Status Check() const override { return snapshot_->Check(); }

 private:
  static constexpr uint64_t kPieceUnits = 1 << 16;
  // Below this, handing work to another thread takes longer than the work.
  static constexpr uint64_t kUnitsWorthAThread = 1 << 18;

  // Differing units among kPieceUnits or fewer.
  struct Piece {
    uint64_t first = 0;
    std::vector<uint16_t> positions;  // from `first` on, rising; empty: all units from `first` on
    Bytes values;
  };
  struct Range {
    uint64_t first = 0, end = 0;
  };
  struct Tensor {
    std::vector<Piece> pieces;  // rising
    std::vector<Range> taken;   // rising, neither overlapping nor touching
  };

  // What of a row of blocks is kept.
  struct BlockRow {
    std::vector<Piece> pieces;
    Bytes scales;
    uint64_t rescaled = 0;
  };

  Status CheckFp8Block(size_t weight, size_t scale, DType dtype, ByteSpan values, Fp8Scales policy) const;
  Result<BlockRow> CompareBlockRow(size_t weight, size_t scale, uint64_t number, DType dtype, ByteSpan values,
                                   Fp8Scales policy) const;
  Result<Piece> Compare(size_t ordinal, uint64_t first, uint64_t units, DType dtype, ByteSpan values) const;
  static bool Add(std::vector<Range>& taken, Range range);

  const TensorSource* snapshot_;
  uint64_t generation_;
  int threads_;
  std::vector<Tensor> tensors_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_CAPTURE_H_
