// A patch opened for use: its head, and its blocks decoded on demand.
#ifndef SKERRY_PATCH_PATCH_H_
#define SKERRY_PATCH_PATCH_H_

#include <memory>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/patch/block.h"
#include "skerry/patch/cell_order.h"
#include "skerry/patch/patch_file.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// A directory entry placed in a model: which units of which tensors, all of one dtype, it replaces some of.
struct PlacedBlock {
  BlockEntry entry;
  DType dtype = DType::kU8;
  uint64_t units = 0;          // of all runs
  std::vector<BlockRun> runs;  // ordinals in the target's layout
};

// What a block does to one of its runs: positions count from the run's first unit.
struct RunChanges {
  BlockRun run;
  BlockChanges changes;
  RunningDigest moved;  // how much the changes move the tensor's running digest
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

  // Decodes one block. `before` holds the old bytes of each of its runs, or is empty for tensors that the base has not.
  // The block's checksum is verified: it covers positions and new bits, so a wrong base shows here as kCorrupt. Runs
  // without changes are left out.
  Result<std::vector<RunChanges>> Decode(const PlacedBlock& block, const Layout& target,
                                         std::span<const ByteSpan> before) const;

 private:
  static Result<Patch> From(std::unique_ptr<PatchBytes> bytes, std::string name);

  std::unique_ptr<PatchBytes> bytes_;
  std::string name_;
  PatchHead head_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_PATCH_H_
