// Read and write access to the tensors of a checkpoint that moves in place.
#ifndef SKERRY_APPLY_SHARD_FILES_H_
#define SKERRY_APPLY_SHARD_FILES_H_

#include <atomic>
#include <memory>
#include <vector>

#include "skerry/base/mapped_file.h"
#include "skerry/patch/block.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// The shards of a directory that has exactly this layout. Reads and writes go through one shared mapping a shard, which
// stays for the object's life: an agent pays for its page tables once, not for each version. Where the host refuses to
// map a file, they are plain reads and read-modify-writes. Reads may be made from several threads, but not during a
// write.
class ShardFiles : public TensorSource {
 public:
  static Result<ShardFiles> Open(const Path& directory, Layout layout);

  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override;
  Status Check() const override;

  // Replaces units of one tensor. Bounds are checked against the layout; positions must be below `units`. Several
  // threads may write units that do not overlap.
  Status Write(size_t ordinal, uint64_t first_unit, uint64_t units, const BlockChanges& changes);
  // Everything written so far, durable; an error also when a mapped write found the disk full.
  Status Sync();

 private:
  struct Shard {
    File file;
    MappedFile mapping;
    bool mapped = false;
    std::unique_ptr<std::atomic<bool>> dirty = std::make_unique<std::atomic<bool>>(false);
  };
  Layout layout_;
  std::vector<Shard> shards_;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_SHARD_FILES_H_
