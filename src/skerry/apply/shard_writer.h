// Write access to a checkpoint's tensors.
#ifndef SKERRY_APPLY_SHARD_WRITER_H_
#define SKERRY_APPLY_SHARD_WRITER_H_

#include <vector>

#include "skerry/base/mapped_file.h"
#include "skerry/patch/block.h"
#include "skerry/tensors/layout.h"

namespace skerry {

// Opens the shards of a directory that has exactly this layout. Writes go through shared mappings (so concurrent readers see them
// at once), or through read-modify-write where the host refuses to map a file. Not thread-safe.
class ShardWriter {
 public:
  // The layout must outlive the writer.
  static Result<ShardWriter> Open(const Path& directory, const Layout& layout);

  // Replaces units of one tensor. Bounds are checked against the layout.
  Status Write(size_t tensor, uint64_t first_unit, uint64_t units, const BlockChanges& changes);
  // Everything written so far, durable; an error also when a mapped write found the disk full.
  Status Sync();

 private:
  struct Shard {
    File file;
    MappedFile mapping;
    bool mapped = false;
    bool dirty = false;
  };
  const Layout* layout_ = nullptr;
  std::vector<Shard> shards_;
  Bytes buffer_;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_SHARD_WRITER_H_
