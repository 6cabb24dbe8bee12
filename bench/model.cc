#include "model.h"

#include <cstring>

namespace skerry {

Result<Model> Model::Of(const TensorSource& source) {
  Model model;
  model.layout = &source.layout();
  for (size_t i = 0; i < model.layout->tensors().size(); ++i) {
    Bytes scratch;
    SKERRY_ASSIGN(const ByteSpan bytes, source.Read(i, 0, model.layout->tensors()[i].bytes, scratch));
    model.tensors.push_back(bytes);
    model.owned.push_back(std::move(scratch));  // moving keeps what `bytes` may point to
  }
  return model;
}

WorkingCopy::WorkingCopy(const Layout& layout) : memory(layout.total_bytes()) {
  uint64_t at = 0;
  for (const LayoutTensor& tensor : layout.tensors()) {
    tensors.push_back(MutableByteSpan(memory).subspan(at, tensor.bytes));
    at += tensor.bytes;
  }
}

void WorkingCopy::CopyFrom(const Model& model) {
  for (size_t i = 0; i < tensors.size(); ++i) std::ranges::copy(model.tensors[i], tensors[i].begin());
}

bool WorkingCopy::Equals(const Model& model) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ByteSpan other = model.tensors[i];
    if (!other.empty() && std::memcmp(tensors[i].data(), other.data(), other.size()) != 0) return false;
  }
  return true;
}

Status ApplyPatch(const Patch& patch, const std::vector<PlacedBlock>& blocks, const Model& before, WorkingCopy& copy) {
  for (const PlacedBlock& block : blocks) {
    const auto unit = static_cast<uint64_t>(DTypeUnit(block.dtype));
    std::vector<ByteSpan> old;
    for (const BlockRun& run : block.runs) {
      old.push_back(before.tensors[run.tensor].subspan(run.first_unit * unit, run.units * unit));
    }
    SKERRY_ASSIGN(const std::vector<RunChanges> decoded, patch.Decode(block, *before.layout, old));
    for (const RunChanges& run : decoded) {
      ApplyBlock(run.changes, copy.tensors[run.run.tensor].data() + run.run.first_unit * unit);
    }
  }
  return {};
}

}  // namespace skerry
