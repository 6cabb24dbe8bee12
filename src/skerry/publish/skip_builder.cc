#include "skerry/publish/skip_builder.h"

#include <fmt/format.h>

#include "skerry/apply/patched_chain.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/failpoint.h"
#include "skerry/board/keys.h"
#include "skerry/patch/cell_order.h"
#include "skerry/patch/file_sink.h"
#include "skerry/patch/patch.h"

namespace skerry {
namespace {

using SideFiles = PatchedChain::SideFiles;

// Undos are read by their maker only, and often: quick to make and to read.
EncodeOptions UndoOptions(int threads) { return {.threads = threads, .level = Level::kFast, .with_names = false}; }

// What the step's patch says about side files. (The target is not asked: it may have changed since it was compared.)
Result<SideFiles> SideFilesOf(const SkipBuilder::Step& step) {
  SideFiles files;
  SKERRY_ASSIGN(const Patch patch, Patch::Open(step.encoded.spools[0]));
  for (const SideFileChange& file : patch.head().side_files) files[file.path] = file.content;
  return files;
}

Result<std::optional<Bytes>> ContentIn(const Checkpoint& checkpoint, const std::string& path) {
  for (const SideFileInfo& info : checkpoint.side_files()) {
    if (info.path != path) continue;
    SKERRY_ASSIGN(Bytes content, checkpoint.ReadSideFile(info));
    return std::optional<Bytes>(std::move(content));
  }
  return std::optional<Bytes>();
}

// From the side files of an old version to those of the step: each map says how a version differs from the snapshot.
Result<std::vector<SideFileChange>> SideFilesBetween(const SideFiles& old, const SideFiles& step,
                                                     const Checkpoint& snapshot) {
  SideFiles paths = old;
  paths.insert(step.begin(), step.end());
  std::vector<SideFileChange> changes;
  for (const auto& [path, either] : paths) {
    SKERRY_ASSIGN(const std::optional<Bytes> now, ContentIn(snapshot, path));
    const auto before = old.find(path), after = step.find(path);
    const std::optional<Bytes>& from = before != old.end() ? before->second : now;
    const std::optional<Bytes>& to = after != step.end() ? after->second : now;
    if (from != to) changes.push_back({.path = path, .content = to});
  }
  return changes;
}

// Adds the cells that the step touches.
Status MarkStep(const SkipBuilder::Step& step, std::vector<bool>& touched) {
  if (step.encoded.parts.size() == 1 && step.encoded.parts[0].tensors.empty()) {
    SKERRY_ASSIGN(const Patch patch, Patch::Open(step.encoded.spools[0]));
    MarkTouchedCells(patch, touched);
  } else {
    touched.assign(touched.size(), true);  // parts count cells in an order of their own
  }
  return {};
}

}  // namespace

Path SkipBuilder::UndoOf(Version version, uint64_t back) const {
  return directory_ / fmt::format("{:09}-{}.skerry", version, back);
}

std::vector<Path> SkipBuilder::UndosBack(Version from, Version to) const {
  std::vector<Path> undos;
  std::error_code error;
  while (from > to) {
    const bool far = from.number() % kShortSkip == 0 && from.number() - to.number() >= kShortSkip;
    const uint64_t back = far ? kShortSkip : 1;
    undos.push_back(UndoOf(from, back));
    if (!std::filesystem::exists(undos.back(), error)) return {};
    from = Version(from.number() - back);
  }
  return undos;
}

Result<std::optional<Edge>> SkipBuilder::BuildOne(const Board& board, const Step& step, uint64_t over,
                                                  Progress& progress) const {
  const Version from(step.version.number() - over);
  const std::vector<Path> undos = UndosBack(step.version.Previous(), from);
  if (undos.empty()) return std::optional<Edge>();
  std::vector<Patch> patches;
  std::vector<const Patch*> chain;
  for (const Path& undo : undos) {
    SKERRY_ASSIGN(Patch patch, Patch::Open(undo));
    patches.push_back(std::move(patch));
  }
  for (const Patch& patch : patches) chain.push_back(&patch);
  SKERRY_ASSIGN(const PatchedChain old,
                PatchedChain::Make(step.snapshot, step.encoded.base_digests, chain, threads_, progress));
  std::vector<bool> touched = old.touched_cells();
  SKERRY_TRY(MarkStep(step, touched));
  SKERRY_ASSIGN(const SideFiles side_files_now, SideFilesOf(step));
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files,
                SideFilesBetween(old.side_files(), side_files_now, step.snapshot));

  const Path spool = directory_ / "skip.spool";
  const KnownChanges known{
      .base_digests = old.digests(), .target_digests = step.encoded.target_digests, .touched_cells = touched};
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(spool));
  const EncodeOptions options{.threads = threads_, .level = level_, .with_names = false, .boxes = step.boxes};
  SKERRY_ASSIGN(const EncodeReceipt receipt,
                EncodePatch(old.source(), step.target, std::move(side_files), options, sink, progress, &known));
  SKERRY_TRY(sink.Commit());
  // What readers will do.
  SKERRY_ASSIGN(const Patch skip, Patch::Open(spool));
  const auto nothing = [](const RunChanges&) -> Status { return {}; };
  SKERRY_TRY(DecodeVerified(skip, old.source(), old.digests(), step.target.layout(), threads_, progress, nothing));

  if (over == kShortSkip) {
    const KnownChanges back{
        .base_digests = known.target_digests, .target_digests = known.base_digests, .touched_cells = touched};
    SKERRY_ASSIGN(std::vector<SideFileChange> undone,
                  SideFilesBetween(side_files_now, old.side_files(), step.snapshot));
    SKERRY_ASSIGN(FileSink undo, FileSink::Create(UndoOf(step.version, kShortSkip)));
    SKERRY_TRY(EncodePatch(step.target, old.source(), std::move(undone), UndoOptions(threads_), undo, progress, &back));
    SKERRY_TRY(undo.Commit());
  }
  ObjectRef object{.key = SkipKey(step.run, step.version, from, 0, sink.sha256()),
                   .uri = {},
                   .size = sink.size(),
                   .sha256 = sink.sha256()};
  SKERRY_ASSIGN(const FileSource source, FileSource::Open(spool, /*may_hard_link=*/true));
  SKERRY_TRY(board.PutObject(object.key, source));
  std::error_code error;
  std::filesystem::remove(spool, error);
  return std::optional<Edge>({.kind = "skip",
                              .from = from,
                              .base_model = receipt.info.base_model,
                              .parts = {{.object = std::move(object), .tensors = {}}}});
}

Result<std::vector<Edge>> SkipBuilder::Build(const Board& board, const Step& step, Progress& progress) const {
  std::vector<Edge> edges;
  if (step.snapshot.layout().digest() != step.target.layout().digest()) return edges;
  for (const uint64_t over : {kShortSkip, kLongSkip}) {
    if (step.version.number() < over || step.version.number() % over != 0) continue;
    auto edge = BuildOne(board, step, over, progress);
    if (!edge && (edge.error().code == Code::kMismatch || edge.error().code == Code::kCorrupt)) {
      // Undos of a version that another publisher's took the place of, or damaged ones: begin anew.
      SKERRY_TRY(RemoveTree(directory_));
      return edges;
    }
    SKERRY_TRY(edge);
    if (*edge) edges.push_back(**std::move(edge));
    SKERRY_TRY(Failpoint("publish.skip_stored"));
  }
  return edges;
}

Status SkipBuilder::Remember(const Step& step, Progress& progress) const {
  if (step.snapshot.layout().digest() != step.target.layout().digest()) return RemoveTree(directory_);
  SKERRY_TRY(MakeDirectories(directory_));
  SKERRY_ASSIGN(const SideFiles changed, SideFilesOf(step));
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files, SideFilesBetween(changed, {}, step.snapshot));
  KnownChanges known{.base_digests = step.encoded.target_digests,
                     .target_digests = step.encoded.base_digests,
                     .touched_cells = std::vector<bool>(CellOrder(step.snapshot.layout()).cells())};
  SKERRY_TRY(MarkStep(step, known.touched_cells));
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(UndoOf(step.version, 1)));
  SKERRY_TRY(
      EncodePatch(step.target, step.snapshot, std::move(side_files), UndoOptions(threads_), sink, progress, &known));
  SKERRY_TRY(sink.Commit());
  Sweep(step.version);
  return Failpoint("publish.undo_kept");
}

// The next long skip begins at most kLongSkip versions back, the next short one at the last multiple of kShortSkip.
void SkipBuilder::Sweep(Version newest) const {
  const uint64_t window = newest.number() - newest.number() % kShortSkip;
  const uint64_t long_window = newest.number() - newest.number() % kLongSkip;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().stem().string();
    const size_t dash = name.find('-');
    if (dash != 9) continue;
    const auto version = Version::Parse(name.substr(0, dash));
    if (!version) continue;
    const bool needed = name.substr(dash + 1) == "1" ? version->number() > window : version->number() > long_window;
    if (!needed) std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace skerry
