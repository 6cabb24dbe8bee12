// Some of a model's tensors as a model of their own: what one part of a patch is about.
#ifndef SKERRY_TENSORS_TENSOR_SUBSET_H_
#define SKERRY_TENSORS_TENSOR_SUBSET_H_

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "skerry/tensors/tensor_source.h"

namespace skerry {

// The tensors of `whole` with these ordinals, which rise. `whole` must outlive it.
class TensorSubset : public TensorSource {
 public:
  TensorSubset(const TensorSource& whole, std::vector<size_t> ordinals)
      : whole_(whole), ordinals_(std::move(ordinals)), layout_(whole.layout().Subset(ordinals_)) {}

  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override {
    return whole_.Read(ordinals_[ordinal], offset, length, scratch);
  }
  Status Check() const override { return whole_.Check(); }

  // Ordinals in the whole, by ordinal here.
  const std::vector<size_t>& ordinals() const { return ordinals_; }

 private:
  const TensorSource& whole_;
  const std::vector<size_t> ordinals_;
  const Layout layout_;
};

// A model without tensors.
class NoTensors : public TensorSource {
 public:
  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t, uint64_t, Bytes&) const override {
    return Fail(Code::kInvalid, "a model without tensors has no tensor {}", ordinal);
  }
  Status Check() const override { return {}; }

 private:
  const Layout layout_ = Layout().Subset({});
};

}  // namespace skerry

#endif  // SKERRY_TENSORS_TENSOR_SUBSET_H_
