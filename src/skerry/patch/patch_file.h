// The container: what a patch file says about itself, written and read.
#ifndef SKERRY_PATCH_PATCH_FILE_H_
#define SKERRY_PATCH_PATCH_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/patch/format.h"
#include "skerry/patch/magnitude_model.h"
#include "skerry/patch/symbol_table.h"
#include "skerry/tensors/dtype.h"
#include "skerry/tensors/tensor_box.h"

namespace skerry {

// Section kInfo.
struct PatchInfo {
  Digest base_model, target_model;    // see tensors/running_digest.h
  Digest base_layout, target_layout;  // see tensors/layout.h
  Digest base_tensors;                // names, dtypes, shapes that positions refer to
  uint64_t units = 0;                 // of all tensors of the target
  uint64_t changed = 0;               // storage units that this patch replaces
  uint64_t blocks = 0;

  bool structural = false;  // feature bit: the target's tensors are not the base's
};

// One entry of the directory, resolved against nothing: cells are counted over all tensors of the target in layout
// order.
struct BlockEntry {
  uint64_t first_cell = 0;
  uint32_t cells = 0;
  Method method = Method::kSparseFlat;
  uint32_t changed = 0;
  uint64_t offset = 0;  // of the payload in the file
  uint64_t size = 0;
  uint32_t checksum = 0;
};

// One entry of the optional names section: a tensor that changes.
struct NamedTensor {
  uint64_t ordinal = 0;
  std::string name;
  DType dtype = DType::kU8;
  std::vector<uint64_t> shape;
  uint64_t changed = 0;  // units
};

// A side file that changed: new content, or none when it was removed.
struct SideFileChange {
  std::string path;
  std::optional<Bytes> content;
};

// What the sparse methods need to know, for each dtype that has blocks of them.
using ValueTables = std::map<DType, SymbolTable>;         // sparse-flat
using MagnitudeModels = std::map<DType, MagnitudeModel>;  // sparse-magnitude

// Everything of a patch but the payloads.
struct PatchHead {
  PatchInfo info;
  ValueTables tables;
  MagnitudeModels magnitudes;
  std::vector<BlockEntry> blocks;
  std::vector<NamedTensor> names;  // empty where the file carries none
  std::optional<Bytes> layout;     // serialised, where it is not the base's
  std::vector<SideFileChange> side_files;
  // Where the patch's tensors are boxes of a model's: which, in the order of the patch's tensors.
  std::vector<TensorBox> boxes;
};

// Where the bytes of a patch go.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status Append(ByteSpan bytes) = 0;
};

class MemorySink : public ByteSink {
 public:
  Status Append(ByteSpan bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Bytes& bytes() { return bytes_; }

 private:
  Bytes bytes_;
};

// Writes a patch front to back: payloads first, so that encoding streams; then the sections, their table, the footer.
class PatchWriter {
 public:
  explicit PatchWriter(ByteSink& sink) : sink_(sink) {}

  // `features`: bits of PatchFeature.
  Status Begin(uint64_t features);
  // `entry.offset` and `entry.size` are filled in here.
  Status AddBlock(BlockEntry entry, ByteSpan payload);
  // `head.blocks` and the counts of blocks in `head.info` are taken from what was added.
  Status Finish(PatchHead head);

  uint64_t bytes_written() const { return written_; }
  const std::vector<BlockEntry>& blocks() const { return blocks_; }

 private:
  Status Append(ByteSpan bytes);

  ByteSink& sink_;
  Bytes header_;
  std::vector<BlockEntry> blocks_;
  uint64_t written_ = 0;
};

// Random access to a patch's bytes.
class PatchBytes {
 public:
  virtual ~PatchBytes() = default;
  virtual uint64_t size() const = 0;
  virtual Result<ByteSpan> Read(uint64_t offset, uint64_t length, Bytes& scratch) const = 0;
};

// Reads and checks all of a patch but the payloads. Untrusted: every section's checksum is verified, sizes add up to
// the file's size exactly, unknown feature bits and sections are refused (kUnsupported), everything else that is wrong
// is kCorrupt.
Result<PatchHead> ReadPatchHead(const PatchBytes& bytes);

}  // namespace skerry

#endif  // SKERRY_PATCH_PATCH_FILE_H_
