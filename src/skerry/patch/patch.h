// A patch opened for use: its head, and its blocks decoded on demand.
#ifndef SKERRY_PATCH_PATCH_H_
#define SKERRY_PATCH_PATCH_H_

#include <memory>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/patch/block.h"
#include "skerry/patch/patch_file.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// A directory entry placed in a model: which units of which tensor it replaces.
struct PlacedBlock {
  BlockEntry entry;
  size_t tensor = 0;        // ordinal in the target's layout
  uint64_t first_unit = 0;  // a multiple of kCellUnits
  uint64_t units = 0;
};

// Immutable after opening; all methods may be called from several threads.
class Patch {
 public:
  static Result<Patch> Open(const Path& path);
  static Result<Patch> FromBytes(Bytes bytes);

  const PatchHead& head() const { return head_; }
  const PatchInfo& info() const { return head_.info; }
  uint64_t size() const { return bytes_->size(); }
  // What messages call it: the path, or "patch".
  const std::string& name() const { return name_; }

  // Places all blocks in the target's layout, rising. kCorrupt when they do not fit it.
  Result<std::vector<PlacedBlock>> Place(const Layout& target) const;

  // Decodes one block whose old bytes are `before` (empty for a tensor that the base has not). The block's checksum
  // is verified: it covers positions and new bits, so a wrong base shows here as kCorrupt.
  // `moved` receives by how much the changes move the tensor's running digest.
  Status Decode(const PlacedBlock& block, const LayoutTensor& tensor, ByteSpan before, BlockChanges& changes,
                RunningDigest& moved) const;

 private:
  static Result<Patch> From(std::unique_ptr<PatchBytes> bytes, std::string name);

  std::unique_ptr<PatchBytes> bytes_;
  std::string name_;
  PatchHead head_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_PATCH_H_
