#include "skerry/publish/anchor_writer.h"

#include <map>

#include "skerry/base/failpoint.h"
#include "skerry/board/keys.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/file_sink.h"
#include "skerry/publish/version_encoder.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxNoteBytes = 16 << 20;

// Which parts of which anchor are stored: a line "<first tensor> <size> <sha256>" each, after a line for the model.
class Note {
 public:
  static Result<Note> Open(Path path, const Digest& model) {
    Note note;
    note.path_ = std::move(path);
    note.text_ = model.Hex() + "\n";
    const auto bytes = ReadFile(note.path_, kMaxNoteBytes);
    if (!bytes && bytes.error().code != Code::kNotFound) return tl::unexpected<Error>(bytes.error());
    if (bytes && AsText(*bytes).starts_with(note.text_)) note.text_ = ToString(*bytes);
    return note;
  }

  std::optional<ObjectRef> Find(size_t first_tensor) const {
    const std::string start = fmt::format("\n{} ", first_tensor);
    const size_t at = text_.find(start);
    if (at == std::string::npos) return std::nullopt;
    const std::string line = text_.substr(at + start.size(), text_.find('\n', at + 1) - at - start.size());
    const size_t space = line.find(' ');
    const auto sha256 = Digest::FromHex(line.substr(space + 1));
    if (space == std::string::npos || !sha256) return std::nullopt;
    return ObjectRef{.key = {}, .uri = {}, .size = std::stoull(line.substr(0, space)), .sha256 = *sha256};
  }

  Status Add(size_t first_tensor, const ObjectRef& object) {
    text_ += fmt::format("{} {} {}\n", first_tensor, object.size, object.sha256.Hex());
    return WriteFileAtomically(path_, AsBytes(text_));
  }

 private:
  Path path_;
  std::string text_;
};

// Tensors in the order of the layout, in runs of about `bytes`.
std::vector<std::vector<size_t>> GroupsOf(const Layout& layout, uint64_t bytes) {
  std::vector<std::vector<size_t>> groups;
  uint64_t filled = 0;
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    if (groups.empty() || filled + layout.tensors()[i].bytes > bytes) {
      groups.emplace_back();
      filled = 0;
    }
    groups.back().push_back(i);
    filled += layout.tensors()[i].bytes;
  }
  return groups;
}

Result<AnchorFile> PutSideFile(const Board& board, const Manifest& manifest, const Checkpoint& checkpoint,
                               const SideFile& file) {
  SKERRY_ASSIGN(const Bytes content, checkpoint.ReadSideFile({.path = file.path, .size = file.size}));
  if (Sha256::Of(content) != file.sha256) {
    return Fail(Code::kConflict, "{} is not what version {} of run {} has", file.path, manifest.version, manifest.run);
  }
  AnchorFile stored{.path = file.path, .object = {.key = {}, .uri = {}, .size = file.size, .sha256 = file.sha256}};
  SKERRY_ASSIGN(stored.object.key, AnchorFileKey(manifest.run, manifest.version, file.sha256, file.path));
  SKERRY_TRY(board.PutObject(stored.object.key, MemorySource(content)));
  return stored;
}

}  // namespace

Result<AnchorRef> WriteAnchor(const Board& board, const Manifest& manifest, const Checkpoint& checkpoint,
                              const AnchorOptions& options, Progress& progress) {
  SKERRY_TRY(MakeDirectories(options.directory));
  SKERRY_ASSIGN(Note note, Note::Open(options.directory / "parts", manifest.model));
  Anchor anchor{.run = manifest.run, .version = manifest.version, .model = manifest.model, .files = {}, .parts = {}};
  for (const SideFile& file : manifest.side_files) {
    SKERRY_ASSIGN(AnchorFile stored, PutSideFile(board, manifest, checkpoint, file));
    anchor.files.push_back(std::move(stored));
  }
  const NoTensors nothing;
  const Path spool = options.directory / "part.spool";
  const EncodeOptions encode{
      .threads = options.threads, .with_names = false, .with_layout = false, .allow_structural = true};
  for (const std::vector<size_t>& tensors : GroupsOf(checkpoint.layout(), options.part_bytes)) {
    const int number = static_cast<int>(anchor.parts.size());
    const auto key = [&](const Digest& sha256) {
      return AnchorPartKey(manifest.run, manifest.version, number, sha256);
    };
    std::optional<ObjectRef> object = note.Find(tensors.front());
    if (!object) {
      SKERRY_ASSIGN(FileSink sink, FileSink::Create(spool));
      SKERRY_TRY(EncodePatch(nothing, TensorSubset(checkpoint, tensors), {}, encode, sink, progress));
      SKERRY_TRY(sink.Commit());
      object = ObjectRef{.key = {}, .uri = {}, .size = sink.size(), .sha256 = sink.sha256()};
      SKERRY_ASSIGN(const FileSource source, FileSource::Open(spool, /*may_hard_link=*/true));
      SKERRY_TRY(board.PutObject(key(object->sha256), source));
      SKERRY_TRY(Failpoint("anchor.part_stored"));
      SKERRY_TRY(note.Add(tensors.front(), *object));
      std::error_code error;
      std::filesystem::remove(spool, error);
    }
    object->key = key(object->sha256);
    anchor.parts.push_back({.object = *std::move(object), .tensors = RangesOf(tensors)});
  }
  SKERRY_ASSIGN(AnchorRef ref, board.PutAnchor(anchor));
  SKERRY_TRY(Failpoint("anchor.document_stored"));
  SKERRY_TRY(RemoveTree(options.directory));
  return ref;
}

}  // namespace skerry
