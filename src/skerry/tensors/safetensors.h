// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length
// N, N bytes of JSON, then the tensors' bytes. Untrusted input.
#ifndef SKERRY_TENSORS_SAFETENSORS_H_
#define SKERRY_TENSORS_SAFETENSORS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/tensors/dtype.h"

namespace skerry {

// The format's own limit, and ours on what it leaves open.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxRank = 64;
inline constexpr size_t kMaxTensorNameBytes = 4096;

struct TensorEntry {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;  // elements along each axis; empty for a scalar
  uint64_t begin = 0;           // bytes, relative to the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // by position in the file, empty ones before others at the same offset
  uint64_t data_bytes = 0;           // bytes behind the header
};

// Parses the JSON text of a header. Refused, each with the tensor's name and both values: duplicate keys, sizes that
// are not unsigned integers, an unknown dtype, a range that is not the shape's size, holes, overlaps, overflow.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json);

// The header of a file that holds these tensors one after another, padded to 8 bytes. (In layout.h's words; `file` and
// `offset_in_file` are not looked at.)
struct LayoutTensor;
std::string SafetensorsHeaderFor(std::span<const LayoutTensor> tensors);

// Reads and parses the header of an open file. `json` is the header's verbatim text (N bytes, padding included). Also
// refuses a file that is longer or shorter than its header says, and says what a wrong kind of file looks like
// (a Git LFS pointer, an XML or HTML error page).
struct SafetensorsFile {
  std::string json;
  SafetensorsHeader header;
};
class FileReader;
Result<SafetensorsFile> ReadSafetensorsHeader(const FileReader& file);

}  // namespace skerry

#endif  // SKERRY_TENSORS_SAFETENSORS_H_
