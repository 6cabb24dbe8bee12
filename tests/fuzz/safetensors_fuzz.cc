// Headers of safetensors files and serialised layouts. What is accepted must hold what the format promises, and must
// survive the way through a layout and back.
#include "check.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/safetensors.h"

namespace skerry {
namespace {

void CheckTiling(const SafetensorsHeader& header) {
  uint64_t at = 0;
  for (const TensorEntry& tensor : header.tensors) {
    FUZZ_CHECK(tensor.begin == at && tensor.end >= at);
    unsigned __int128 bits = static_cast<unsigned>(DTypeBits(tensor.dtype));
    for (const uint64_t axis : tensor.shape) {
      bits *= axis;
      FUZZ_CHECK(bits <= UINT64_MAX);
    }
    FUZZ_CHECK(bits == static_cast<unsigned __int128>(tensor.end - tensor.begin) * 8);
    at = tensor.end;
  }
  FUZZ_CHECK(at == header.data_bytes);
}

void FuzzHeader(std::string_view json) {
  const auto header = ParseSafetensorsHeader(json);
  if (!header) return;
  CheckTiling(*header);
  const auto layout = Layout::FromHeaders({{"model.safetensors", std::string(json)}});
  FUZZ_CHECK(layout && layout->tensors().size() == header->tensors.size());
  const auto again = Layout::Parse(layout->Serialize());
  FUZZ_CHECK(again && again->digest() == layout->digest());
  FUZZ_CHECK(again->files()[0].header == json);
}

void FuzzLayout(ByteSpan json) {
  const auto layout = Layout::Parse(json);
  if (!layout) return;
  FUZZ_CHECK(layout->Serialize() == ToBytes(json));
  for (size_t i = 0; i < layout->tensors().size(); ++i) {
    const LayoutTensor& tensor = layout->tensors()[i];
    FUZZ_CHECK(layout->Find(tensor.name) == static_cast<int64_t>(i));
    FUZZ_CHECK(tensor.offset_in_file + tensor.bytes <= layout->files()[tensor.file].size());
  }
  for (const LayoutFile& file : layout->files()) FUZZ_CHECK(CheckRelativePath(file.name));
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  skerry::FuzzHeader(skerry::AsText(bytes));
  skerry::FuzzLayout(bytes);
  return 0;
}
