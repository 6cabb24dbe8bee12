// `model.safetensors.index.json`: which tensor lies in which shard. Untrusted input; the authority over a directory.
#ifndef SKERRY_TENSORS_SHARD_INDEX_H_
#define SKERRY_TENSORS_SHARD_INDEX_H_

#include <map>
#include <string>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/result.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/safetensors.h"

namespace skerry {

// `metadata` (total_size and what else is there) is not trusted and not used; the file travels verbatim as a side file.
struct ShardIndex {
  Path path;
  std::map<std::string, std::string, std::less<>> file_of;  // tensor name -> shard

  std::vector<std::string> Files() const;  // sorted, each once
  // Every tensor of the shard must be mapped to it: a stray or stale copy would make the bytes ambiguous.
  Status CheckShard(const std::string& shard, const SafetensorsHeader& header) const;
  // Every mapped tensor must have been found.
  Status CheckAllFound(const Layout& layout) const;
};

Result<ShardIndex> ReadShardIndex(const Path& path);

}  // namespace skerry

#endif  // SKERRY_TENSORS_SHARD_INDEX_H_
