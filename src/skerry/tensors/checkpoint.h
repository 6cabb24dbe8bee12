// A Hugging Face checkpoint directory, read without a copy where the host allows it.
#ifndef SKERRY_TENSORS_CHECKPOINT_H_
#define SKERRY_TENSORS_CHECKPOINT_H_

#include <string>
#include <vector>

#include "skerry/base/mapped_file.h"
#include "skerry/base/result.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// Side files are what a checkpoint has beside its tensors: config, tokenizer, the index. Larger ones are left out.
inline constexpr uint64_t kMaxSideFileBytes = 64 << 20;

struct SideFileInfo {
  std::string path;  // relative, '/'-separated
  uint64_t size = 0;
  auto operator<=>(const SideFileInfo&) const = default;
};

// Read-only view of a checkpoint on disk. The list of shards comes from `*.safetensors.index.json` where there is one
// (it is the authority: other .safetensors files are ignored with a warning), else the directory must hold exactly one
// .safetensors file. All methods may be called from several threads.
class Checkpoint : public TensorSource {
 public:
  static Result<Checkpoint> Open(const Path& directory);
  // One safetensors file, without side files, as if its directory held nothing else.
  static Result<Checkpoint> OpenFile(const Path& file);
  // A safetensors file's bytes, which must outlive it and stay as they are. The layout calls the file
  // "model.safetensors"; directory() is empty.
  static Result<Checkpoint> FromBytes(ByteSpan bytes);

  const Path& directory() const { return directory_; }
  const Layout& layout() const override { return layout_; }
  const std::vector<SideFileInfo>& side_files() const { return side_files_; }  // sorted by path
  const std::vector<std::string>& warnings() const { return warnings_; }

  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override;
  Status Check() const override;
  Result<Bytes> ReadSideFile(const SideFileInfo& file) const;

 private:
  static Result<Checkpoint> OfOneFile(const std::string& name, FileReader reader);

  Path directory_;
  Layout layout_;
  std::vector<FileReader> shards_;  // in the order of layout().files()
  std::vector<SideFileInfo> side_files_;
  std::vector<std::string> warnings_;
};

}  // namespace skerry

#endif  // SKERRY_TENSORS_CHECKPOINT_H_
