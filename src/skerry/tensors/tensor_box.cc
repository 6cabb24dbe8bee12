#include "skerry/tensors/tensor_box.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace skerry {
namespace {

constexpr uint64_t kWordBits = 64;

std::string NameOf(const LayoutTensor& tensor, const TensorBox& box) {
  std::string name = tensor.name + "[";
  for (size_t axis = 0; axis < box.start.size(); ++axis) {
    name += fmt::format("{}{}:{}", axis == 0 ? "" : ",", box.start[axis], box.start[axis] + box.size[axis]);
  }
  return name + "]";
}

uint64_t ElementsOf(const TensorBox& box) {
  return std::accumulate(box.size.begin(), box.size.end(), uint64_t{1}, std::multiplies<>());
}

}  // namespace

Result<BoxRuns> BoxRuns::Of(const LayoutTensor& tensor, const TensorBox& box) {
  const size_t rank = tensor.shape.size();
  const auto refuse = [&](std::string_view why) {
    return Fail(Code::kCorrupt, "box {} of tensor '{}' {}: {}", NameOf(tensor, box), tensor.name, DescribeType(tensor),
                why);
  };
  if (box.start.size() != rank || box.size.size() != rank) return refuse("it has another number of axes");
  for (size_t axis = 0; axis < rank; ++axis) {
    if (box.size[axis] == 0) return refuse("it is empty");
    if (box.start[axis] > tensor.shape[axis] || box.size[axis] > tensor.shape[axis] - box.start[axis]) {
      return refuse("it is not within the tensor");
    }
  }
  // Bits fit: the tensor's bytes do, and shapes were checked against them.
  const auto bits = static_cast<uint64_t>(DTypeBits(tensor.dtype));
  BoxRuns runs;
  uint64_t stride = bits, run = bits, first = 0;  // in bits, of one step along the axis that is looked at
  bool inside = true;                             // a run goes on along it
  runs.count_ = 1;
  for (size_t axis = rank; axis-- > 0;) {
    first += box.start[axis] * stride;
    if (inside) {
      run *= box.size[axis];
      inside = box.size[axis] == tensor.shape[axis];
    } else if (box.size[axis] > 1) {
      runs.axes_.push_back({.size = box.size[axis], .stride = stride});
      runs.count_ *= box.size[axis];
    }
    stride *= tensor.shape[axis];
  }
  const bool to_the_end = runs.count_ == 1 && first + run == tensor.bytes * 8;
  bool aligned = first % kWordBits == 0 && (run % kWordBits == 0 || to_the_end);
  for (Axis& axis : runs.axes_) {
    aligned = aligned && axis.stride % kWordBits == 0;
    axis.stride /= 8;
  }
  if (!aligned) return refuse("it does not begin and end with whole 8 bytes of the tensor");
  runs.first_ = first / 8;
  runs.bytes_ = (run + 7) / 8;
  return runs;
}

// The innermost axis stands first.
uint64_t BoxRuns::OffsetOf(uint64_t i) const {
  uint64_t offset = first_;
  for (const Axis& axis : axes_) {
    offset += i % axis.size * axis.stride;
    i /= axis.size;
  }
  return offset;
}

Result<BoxView::Boxed> BoxView::LayOut(const Layout& whole, std::vector<TensorBox> boxes) {
  struct Named {
    LayoutTensor tensor;
    TensorBox box;
    BoxRuns runs;
  };
  std::vector<Named> named;
  named.reserve(boxes.size());
  for (TensorBox& box : boxes) {
    if (box.tensor >= whole.tensors().size()) {
      return Fail(Code::kCorrupt, "a box of tensor {}, but there are {}", box.tensor, whole.tensors().size());
    }
    const LayoutTensor& tensor = whole.tensors()[box.tensor];
    SKERRY_ASSIGN(BoxRuns runs, BoxRuns::Of(tensor, box));
    LayoutTensor one{
        .name = NameOf(tensor, box), .dtype = tensor.dtype, .shape = box.size, .bytes = runs.bytes() * runs.count()};
    named.push_back({std::move(one), std::move(box), std::move(runs)});
  }
  std::sort(named.begin(), named.end(), [](const Named& a, const Named& b) { return a.tensor.name < b.tensor.name; });
  Boxed boxed;
  std::vector<LayoutTensor> tensors;
  for (Named& one : named) {
    if (!tensors.empty() && tensors.back().name == one.tensor.name) {
      return Fail(Code::kCorrupt, "box {} is there twice", one.tensor.name);
    }
    tensors.push_back(std::move(one.tensor));
    boxed.boxes.push_back(std::move(one.box));
    boxed.runs.push_back(std::move(one.runs));
  }
  boxed.layout = Layout::WithoutFiles(std::move(tensors));
  return boxed;
}

Result<BoxView> BoxView::Of(const TensorSource& whole, std::vector<TensorBox> boxes) {
  SKERRY_ASSIGN(Boxed boxed, LayOut(whole.layout(), std::move(boxes)));
  return BoxView(whole, std::move(boxed));
}

Result<ByteSpan> BoxView::Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const {
  const BoxRuns& runs = boxed_.runs[ordinal];
  const uint64_t tensor = boxed_.boxes[ordinal].tensor;
  if (length == 0) return ByteSpan();
  if (offset % runs.bytes() + length <= runs.bytes())
    return whole_->Read(tensor, runs.PlaceOf(offset), length, scratch);
  Bytes piece;
  scratch.resize(length);
  for (uint64_t done = 0; done < length;) {
    const uint64_t at = offset + done;
    const uint64_t size = std::min(length - done, runs.bytes() - at % runs.bytes());
    SKERRY_ASSIGN(const ByteSpan bytes, whole_->Read(tensor, runs.PlaceOf(at), size, piece));
    std::copy(bytes.begin(), bytes.end(), scratch.begin() + static_cast<ptrdiff_t>(done));
    done += size;
  }
  return ByteSpan(scratch);
}

Status CheckBoxesApart(const Layout& whole, const std::vector<TensorBox>& boxes) {
  std::vector<const TensorBox*> sorted;
  for (const TensorBox& box : boxes) {
    if (box.tensor < whole.tensors().size() && box.start.size() == box.size.size()) sorted.push_back(&box);
  }
  std::sort(sorted.begin(), sorted.end(), [](const TensorBox* a, const TensorBox* b) {
    return std::tie(a->tensor, a->start) < std::tie(b->tensor, b->start);
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const TensorBox& a = *sorted[i];
    if (i + kMaxBoxesOfATensor < sorted.size() && sorted[i + kMaxBoxesOfATensor]->tensor == a.tensor) {
      return Fail(Code::kInvalid, "tensor '{}' has more than {} parts", whole.tensors()[a.tensor].name,
                  kMaxBoxesOfATensor);
    }
    // Those behind it that begin within it along the first axis.
    for (size_t j = i + 1; j < sorted.size() && sorted[j]->tensor == a.tensor; ++j) {
      const TensorBox& b = *sorted[j];
      if (!a.start.empty() && !b.start.empty() && b.start[0] - a.start[0] >= a.size[0]) break;
      bool apart = a.start.size() != b.start.size();
      for (size_t axis = 0; axis < a.start.size() && !apart; ++axis) {
        apart = a.start[axis] + a.size[axis] <= b.start[axis] || b.start[axis] + b.size[axis] <= a.start[axis];
      }
      if (apart) continue;
      const LayoutTensor& tensor = whole.tensors()[a.tensor];
      return Fail(Code::kInvalid, "{} and {} overlap", NameOf(tensor, a), NameOf(tensor, b));
    }
  }
  return {};
}

Status CheckBoxesCover(const Layout& whole, const std::vector<TensorBox>& boxes) {
  std::vector<uint64_t> covered(whole.tensors().size());
  for (const TensorBox& box : boxes) covered[box.tensor] += ElementsOf(box);
  for (size_t i = 0; i < covered.size(); ++i) {
    const LayoutTensor& tensor = whole.tensors()[i];
    const uint64_t elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), uint64_t{1}, std::multiplies<>());
    if (covered[i] == elements) continue;
    return Fail(Code::kInvalid, "tensor '{}' has {} elements, but all its parts together {}", tensor.name, elements,
                covered[i]);
  }
  return {};
}

}  // namespace skerry
