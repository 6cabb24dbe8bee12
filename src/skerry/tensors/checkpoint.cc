#include "skerry/tensors/checkpoint.h"

#include <algorithm>
#include <array>
#include <optional>

#include "skerry/tensors/safetensors.h"
#include "skerry/tensors/shard_index.h"

namespace skerry {
namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
// Weights in other containers: not part of what Skerry ships.
constexpr std::array<std::string_view, 10> kOtherWeights = {".bin",  ".pt", ".pth",     ".ckpt", ".gguf",
                                                            ".onnx", ".h5", ".msgpack", ".npz",  ".ot"};

struct Listing {
  std::vector<std::string> indexes;  // in the top folder
  std::vector<std::string> shards;   // in the top folder
  std::vector<SideFileInfo> side_files;
  std::vector<std::string> warnings;
};

Result<Listing> ListDirectory(const Path& directory) {
  namespace fs = std::filesystem;
  Listing listing;
  std::error_code error;
  auto entries = fs::recursive_directory_iterator(directory, error);
  if (error) return ErrnoFailure(error.value(), "list", directory);
  for (; entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (error) return ErrnoFailure(error.value(), "list", directory);
    const fs::directory_entry& entry = *entries;
    if (entry.path().filename().string().starts_with(".")) {  // .git, .cache, .skerry
      if (entry.is_directory(error)) entries.disable_recursion_pending();
      continue;
    }
    if (!entry.is_regular_file(error)) continue;  // follows links to files, as a Hugging Face cache has them
    const std::string name = entry.path().lexically_relative(directory).generic_string();
    const bool top = name.find('/') == std::string::npos;
    if (top && name.ends_with(kIndexSuffix)) listing.indexes.push_back(name);
    if (name.ends_with(kShardSuffix)) {
      if (top) listing.shards.push_back(name);
      continue;
    }
    const bool other_weights = std::any_of(kOtherWeights.begin(), kOtherWeights.end(),
                                           [&](std::string_view suffix) { return name.ends_with(suffix); });
    if (const Status safe = CheckRelativePath(name); !safe) {
      listing.warnings.push_back(safe.error().message + "; left out");
    } else if (other_weights || entry.file_size(error) > kMaxSideFileBytes) {
      listing.warnings.push_back(
          fmt::format("{} is left out: {}", name,
                      other_weights ? "not a safetensors file" : "larger than a side file may be (64 MiB)"));
    } else {
      listing.side_files.push_back({name, entry.file_size(error)});
    }
  }
  std::sort(listing.side_files.begin(), listing.side_files.end());
  std::sort(listing.shards.begin(), listing.shards.end());
  std::sort(listing.indexes.begin(), listing.indexes.end());
  return listing;
}

std::string Join(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(limit, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > limit ? fmt::format("{} and {} more", text, names.size() - limit) : text;
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const Path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) {
    return Fail(Code::kNotFound, "checkpoint {} does not exist", directory.string());
  }
  if (!std::filesystem::is_directory(directory, error)) {
    return Fail(Code::kInvalid, "{} is a file, but a checkpoint is a directory (safetensors, config, …)",
                directory.string());
  }
  SKERRY_ASSIGN(Listing listing, ListDirectory(directory));

  std::vector<std::string> shards;
  std::optional<ShardIndex> index;
  if (listing.indexes.size() > 1) {
    return Fail(Code::kInvalid, "{} holds several indexes ({}): which one counts?", directory.string(),
                Join(listing.indexes, 5));
  }
  if (listing.indexes.size() == 1) {
    SKERRY_ASSIGN(index, ReadShardIndex(directory / listing.indexes[0]));
    shards = index->Files();
    std::vector<std::string> missing;
    for (const std::string& shard : shards) {
      if (!std::filesystem::exists(directory / shard, error)) missing.push_back(shard);
    }
    if (!missing.empty()) {
      const bool stale = missing.size() == shards.size() && !listing.shards.empty();
      return Fail(Code::kCorrupt, "{} names {} files of which {} are missing: {}{}",
                  (directory / listing.indexes[0]).string(), shards.size(), missing.size(), Join(missing, 5),
                  stale ? fmt::format("; the index looks stale: the directory holds {}", Join(listing.shards, 3)) : "");
    }
    for (const std::string& shard : listing.shards) {
      if (!std::binary_search(shards.begin(), shards.end(), shard)) {
        listing.warnings.push_back(fmt::format("{} is ignored: {} does not name it", shard, listing.indexes[0]));
      }
    }
  } else if (listing.shards.size() == 1) {
    shards = listing.shards;
  } else if (listing.shards.empty()) {
    return Fail(Code::kInvalid, "{} holds no .safetensors file and no index", directory.string());
  } else {
    return Fail(Code::kInvalid,
                "{} holds {} .safetensors files ({}) but no model.safetensors.index.json to say which belong",
                directory.string(), listing.shards.size(), Join(listing.shards, 3));
  }

  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  std::vector<std::pair<std::string, std::string>> headers;
  for (const std::string& shard : shards) {
    SKERRY_ASSIGN(FileReader reader, FileReader::Open(directory / shard));
    SKERRY_ASSIGN(SafetensorsFile file, ReadSafetensorsHeader(reader));
    if (index) SKERRY_TRY(index->CheckShard(shard, file.header));
    headers.emplace_back(shard, std::move(file.json));
    checkpoint.shards_.push_back(std::move(reader));
  }
  auto layout = Layout::FromHeaders(std::move(headers));
  if (!layout) return Annotate(std::move(layout).error(), directory.string());
  checkpoint.layout_ = *std::move(layout);
  if (index) SKERRY_TRY(index->CheckAllFound(checkpoint.layout_));
  checkpoint.side_files_ = std::move(listing.side_files);
  checkpoint.warnings_ = std::move(listing.warnings);
  return checkpoint;
}

Result<Checkpoint> Checkpoint::OfOneFile(const std::string& name, FileReader reader) {
  SKERRY_ASSIGN(SafetensorsFile file, ReadSafetensorsHeader(reader));
  auto layout = Layout::FromHeaders({{name, std::move(file.json)}});
  if (!layout) return Annotate(std::move(layout).error(), reader.path().string());
  Checkpoint checkpoint;
  checkpoint.layout_ = *std::move(layout);
  checkpoint.shards_.push_back(std::move(reader));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::OpenFile(const Path& file) {
  SKERRY_ASSIGN(FileReader reader, FileReader::Open(file));
  SKERRY_ASSIGN(Checkpoint checkpoint, OfOneFile(file.filename().string(), std::move(reader)));
  checkpoint.directory_ = file.has_parent_path() ? file.parent_path() : Path(".");
  return checkpoint;
}

Result<Checkpoint> Checkpoint::FromBytes(ByteSpan bytes) {
  return OfOneFile("model.safetensors", FileReader::OfMemory(bytes, "the given bytes"));
}

Result<ByteSpan> Checkpoint::Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const {
  const LayoutTensor& tensor = layout_.tensors()[ordinal];
  if (offset > tensor.bytes || length > tensor.bytes - offset) {
    return Fail(Code::kInvalid, "tensor '{}' has {} bytes, but bytes {} to {} were asked for", tensor.name,
                tensor.bytes, offset, offset + length);
  }
  return shards_[tensor.file].Read(tensor.offset_in_file + offset, length, scratch);
}

Result<Bytes> Checkpoint::ReadSideFile(const SideFileInfo& file) const {
  return ReadFile(directory_ / file.path, kMaxSideFileBytes);
}

Status Checkpoint::Check() const {
  for (const FileReader& shard : shards_) SKERRY_TRY(shard.Check());
  return {};
}

}  // namespace skerry
