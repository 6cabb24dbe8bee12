// Boxes of tensors: what one rank of a sharded model holds, as a model of its own.
#ifndef SKERRY_TENSORS_TENSOR_BOX_H_
#define SKERRY_TENSORS_TENSOR_BOX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "skerry/base/result.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// A box of a tensor: along each axis, elements from `start` on, `size` of them.
struct TensorBox {
  uint64_t tensor = 0;  // ordinal in the whole model
  std::vector<uint64_t> start, size;
  bool operator==(const TensorBox&) const = default;
};

// Where the bytes of a box lie in its tensor, both in row-major order: `count` runs of `bytes` each. The box's bytes
// are the runs one after another, and the runs rise.
class BoxRuns {
 public:
  // kCorrupt, naming the tensor, for a box that is not within it, and for one whose runs do not begin and end with
  // whole 64-bit words of it (but for the end of the tensor): words are what running digests are sums of, so that those
  // of a tensor's boxes add up to the tensor's.
  static Result<BoxRuns> Of(const LayoutTensor& tensor, const TensorBox& box);

  uint64_t bytes() const { return bytes_; }  // of one run
  uint64_t count() const { return count_; }
  // Of the first byte of run `i` in the tensor.
  uint64_t OffsetOf(uint64_t i) const;
  // Where byte `at` of the box is in the tensor.
  uint64_t PlaceOf(uint64_t at) const { return OffsetOf(at / bytes_) + at % bytes_; }

 private:
  struct Axis {
    uint64_t size = 0, stride = 0;  // stride in bytes
  };
  uint64_t first_ = 0, bytes_ = 0, count_ = 0;
  std::vector<Axis> axes_;  // outside of a run
};

// A model whose tensors are boxes of another's, in ascending order of their names: "model.norm.weight[0:144]". The
// layout has no files.
class BoxView : public TensorSource {
 public:
  // `whole` must outlive it. kCorrupt for boxes that BoxRuns refuses, and that are there twice.
  static Result<BoxView> Of(const TensorSource& whole, std::vector<TensorBox> boxes);
  // The layout and the boxes in its order, without bytes to read.
  struct Boxed {
    Layout layout;
    std::vector<TensorBox> boxes;
    std::vector<BoxRuns> runs;
  };
  static Result<Boxed> LayOut(const Layout& whole, std::vector<TensorBox> boxes);

  const Layout& layout() const override { return boxed_.layout; }
  // In the layout's order.
  const std::vector<TensorBox>& boxes() const { return boxed_.boxes; }
  const BoxRuns& runs(size_t ordinal) const { return boxed_.runs[ordinal]; }

  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override;
  Status Check() const override { return whole_->Check(); }

 private:
  BoxView(const TensorSource& whole, Boxed boxed) : whole_(&whole), boxed_(std::move(boxed)) {}

  const TensorSource* whole_;
  Boxed boxed_;
};

// As many ranks may share a tensor: each of its boxes is held against the others.
inline constexpr size_t kMaxBoxesOfATensor = 4096;

// kInvalid, naming the tensor, where two of its boxes overlap or there are too many. Whether boxes are within their
// tensors is not looked at.
Status CheckBoxesApart(const Layout& whole, const std::vector<TensorBox>& boxes);
// kInvalid, naming a tensor, where its boxes, which are apart, are not all of it. All tensors of `whole` are looked at.
Status CheckBoxesCover(const Layout& whole, const std::vector<TensorBox>& boxes);

}  // namespace skerry

#endif  // SKERRY_TENSORS_TENSOR_BOX_H_
