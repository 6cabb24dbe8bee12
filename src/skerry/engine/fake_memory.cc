#include "skerry/engine/fake_memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "skerry/base/mapped_file.h"
#include "skerry/tensors/checkpoint.h"
#include "skerry/tensors/running_digest.h"
#include "skerry/tensors/safetensors.h"

namespace skerry {

std::string FakeMemory::Model() const {
  if (tensors.empty()) return "none";
  const Result<Digest> layout = Digest::FromHex(tensors_digest);
  if (!layout) return "none";
  std::vector<RunningDigest> digests;
  for (const auto& [name, tensor] : tensors) digests.push_back(DigestWords(tensor.bytes, 0));
  return ModelDigest(*layout, digests).Hex();
}

Status LoadWhole(const Path& checkpoint, FakeMemory& memory) {
  SKERRY_ASSIGN(const Checkpoint source, Checkpoint::Open(checkpoint));
  memory.tensors.clear();
  memory.tensors_digest = source.layout().tensors_digest().Hex();
  Bytes scratch;
  const auto& tensors = source.layout().tensors();
  for (size_t ordinal = 0; ordinal < tensors.size(); ++ordinal) {
    SKERRY_ASSIGN(const ByteSpan bytes, source.Read(ordinal, 0, tensors[ordinal].bytes, scratch));
    memory.tensors[tensors[ordinal].name] = {ToBytes(bytes), static_cast<size_t>(DTypeUnit(tensors[ordinal].dtype))};
  }
  return source.Check();
}

Status LoadHalf(const Path& checkpoint, FakeMemory& memory) {
  FakeMemory whole;
  SKERRY_TRY(LoadWhole(checkpoint, whole));
  for (auto& [name, tensor] : memory.tensors) {
    const Bytes& source = whole.tensors[name].bytes;
    const size_t half = std::min(source.size(), tensor.bytes.size()) / 2;
    std::copy_n(source.begin(), half, tensor.bytes.begin());
  }
  return {};
}

Status LoadElements(const Path& checkpoint, const Path& positions, FakeMemory& memory) {
  SKERRY_ASSIGN(const Checkpoint source, Checkpoint::Open(checkpoint));
  SKERRY_ASSIGN(const FileReader file, FileReader::Open(positions));
  SKERRY_ASSIGN(const SafetensorsFile header, ReadSafetensorsHeader(file));
  const uint64_t data = 8 + header.json.size();
  Bytes scratch, scratch2;
  for (const TensorEntry& entry : header.header.tensors) {
    const int64_t ordinal = source.layout().Find(entry.name);
    const auto held = memory.tensors.find(entry.name);
    if (ordinal < 0 || held == memory.tensors.end()) {
      return Fail(Code::kMismatch, "{}: no tensor {}", positions.string(), entry.name);
    }
    FakeMemory::Tensor& tensor = held->second;
    const size_t width = entry.dtype == DType::kU32 ? 4 : 8;
    SKERRY_ASSIGN(const ByteSpan indices, file.Read(data + entry.begin, entry.end - entry.begin, scratch));
    SKERRY_ASSIGN(const ByteSpan values, source.Read(static_cast<size_t>(ordinal), 0, tensor.bytes.size(), scratch2));
    for (size_t at = 0; at + width <= indices.size(); at += width) {
      uint64_t index = 0;
      std::memcpy(&index, indices.data() + at, width);
      if (index >= tensor.bytes.size() / tensor.element) {
        return Fail(Code::kMismatch, "{}: {} has no element {}", positions.string(), entry.name, index);
      }
      std::memcpy(tensor.bytes.data() + index * tensor.element, values.data() + index * tensor.element, tensor.element);
    }
  }
  return source.Check();
}

}  // namespace skerry
