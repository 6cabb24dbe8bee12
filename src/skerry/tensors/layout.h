// What is the same for all versions of a run: names, dtypes, shapes and file placement of a checkpoint's tensors.
#ifndef SKERRY_TENSORS_LAYOUT_H_
#define SKERRY_TENSORS_LAYOUT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/tensors/dtype.h"

namespace skerry {

struct LayoutTensor {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  uint32_t file = 0;            // index into Layout::files()
  uint64_t offset_in_file = 0;  // of the first byte, from the start of the file

  // Storage units (see dtype.h): what positions in a patch count.
  uint64_t units() const { return bytes / static_cast<uint64_t>(DTypeUnit(dtype)); }
};

struct LayoutFile {
  std::string name;    // relative to the checkpoint directory
  std::string header;  // the safetensors header's verbatim JSON text
  uint64_t data_bytes = 0;

  uint64_t size() const { return 8 + header.size() + data_bytes; }
};

// Immutable once made. Tensors stand in ascending byte order of their names, files likewise; an ordinal is an index
// into tensors(). Because a safetensors file is its header followed by its tensors without holes, a layout and the
// tensors' bytes together determine every byte of every file.
class Layout {
 public:
  // From (file name, verbatim header) pairs. Refuses a tensor that stands in two files and unsafe file names.
  static Result<Layout> FromHeaders(std::vector<std::pair<std::string, std::string>> headers);
  // From Serialize()'s output; untrusted.
  static Result<Layout> Parse(ByteSpan json);

  // Tensors in ascending order of their names, without files: the digest is the tensors digest, and it can't be
  // serialised.
  static Layout WithoutFiles(std::vector<LayoutTensor> tensors);
  // The tensors with these ordinals, which rise, as such a layout.
  Layout Subset(std::span<const size_t> ordinals) const;

  // Canonical JSON: {"files":[{"header":TEXT,"name":TEXT},…],"format":1}, keys sorted, no spaces.
  Bytes Serialize() const;

  const std::vector<LayoutTensor>& tensors() const { return tensors_; }
  const std::vector<LayoutFile>& files() const { return files_; }
  uint64_t total_bytes() const { return total_bytes_; }  // of all tensors
  uint64_t total_units() const { return total_units_; }

  // SHA-256 of Serialize(): the layout digest. Two checkpoints with equal layout digests have equal headers and files.
  const Digest& digest() const { return digest_; }
  // SHA-256 over names, dtypes and shapes alone (docs/patch-format.md, "Digests"): equal for the same tensors in
  // other files or another order.
  const Digest& tensors_digest() const { return tensors_digest_; }

  // The ordinal, or -1.
  int64_t Find(std::string_view name) const;

 private:
  std::vector<LayoutTensor> tensors_;
  std::vector<LayoutFile> files_;
  uint64_t total_bytes_ = 0;
  uint64_t total_units_ = 0;
  Digest digest_, tensors_digest_;
};

// Says in words how the tensors of two layouts differ ("tensor 'a' is missing", "… is F32 [4], not BF16 [4]"); empty
// when names, dtypes and shapes are equal. At most `limit` differences are listed, then a count.
std::string DescribeTensorDifferences(const Layout& base, const Layout& other, size_t limit = 5);

// "BF16 [2, 3]"
std::string DescribeType(const LayoutTensor& tensor);

// A path that stays inside the directory it is joined to: relative, '/'-separated, no empty, dotted or hidden
// component, no control characters, quotes or backslashes, UTF-8, at most 1024 bytes.
Status CheckRelativePath(std::string_view path);

// The same, and the name ends in `.safetensors`, which no side file's does.
inline constexpr std::string_view kShardSuffix = ".safetensors";
Status CheckShardName(std::string_view name);

// Among files of one directory: none is also the folder of another.
Status CheckNoFileIsAFolder(const std::vector<std::string>& paths);

}  // namespace skerry

#endif  // SKERRY_TENSORS_LAYOUT_H_
