#include "measure_speed.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "measure_bytes.h"
#include "peers.h"
#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/base/clock.h"
#include "skerry/patch/side_files.h"

namespace skerry {
namespace {

// Splits all tensors into pieces of a few MiB and runs them on `threads` threads.
void ForPieces(const Layout& layout, int threads, const std::function<void(size_t, size_t, size_t)>& run) {
  constexpr uint64_t kPiece = 8 << 20;
  struct Piece {
    size_t tensor, offset, length;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const uint64_t bytes = layout.tensors()[i].bytes;
    for (uint64_t at = 0; at < bytes; at += kPiece) pieces.push_back({i, at, std::min(kPiece, bytes - at)});
  }
  const auto work = [&](size_t first) {
    for (size_t i = first; i < pieces.size(); i += static_cast<size_t>(threads)) {
      run(pieces[i].tensor, pieces[i].offset, pieces[i].length);
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& thread : others) thread.join();
}

class Run {
 public:
  Run(const Checkpoint& a, const Checkpoint& b, Model before, Model after, const Path& scratch)
      : a_(a),
        b_(b),
        before_(std::move(before)),
        after_(std::move(after)),
        memory_(b.layout()),
        copy_(scratch / fmt::format("skerry-bench-{}", ::getpid())) {
    speed_.step = a.directory().filename().string() + "-" + b.directory().filename().string();
    speed_.bytes = b.layout().total_bytes();
    speed_.units = b.layout().total_units();
  }

  Status Prepare() {
    SKERRY_ASSIGN(side_files_, CompareSideFiles(a_, b_));
    SKERRY_ASSIGN(std::vector<SideFileChange> side_files_back, CompareSideFiles(b_, a_));
    MemorySink sink;
    SKERRY_ASSIGN(
        const EncodeReceipt receipt,
        EncodePatch(b_, a_, std::move(side_files_back), {.threads = 2, .level = Level::kFast}, sink, Progress::None()));
    speed_.changed = receipt.info.changed;
    SKERRY_ASSIGN(Patch back, Patch::FromBytes(std::move(sink.bytes())));
    back_.emplace(std::move(back));
    SKERRY_TRY(RemoveTree(copy_));
    SKERRY_TRY(MakeDirectories(copy_));
    for (const LayoutFile& file : a_.layout().files()) {
      SKERRY_TRY(CopyFile(a_.directory() / file.name, copy_ / file.name));
    }
    for (const SideFileInfo& file : a_.side_files()) {
      SKERRY_TRY(MakeDirectories((copy_ / file.path).parent_path()));
      SKERRY_TRY(CopyFile(a_.directory() / file.path, copy_ / file.path));
    }
    return {};
  }

  // The slow peer runs only once.
  Status Repeat(bool first) {
    for (int threads = 1; threads <= 2; ++threads) {
      SKERRY_TRY(Yardsticks(threads));
      for (size_t level = 0; level < kLevels.size(); ++level) SKERRY_TRY(Skerry(threads, level));
      if (threads > 1) continue;
      SKERRY_TRY(OnePeer(*nemo_, speed_.nemo));
      if (first) SKERRY_TRY(OnePeer(*slime_, speed_.slime));
      SKERRY_TRY(OnePeer(*positions_, speed_.positions));
    }
    return {};
  }

  Result<DeltaSpeed> Finish() {
    SKERRY_TRY(RemoveTree(copy_));
    return speed_;
  }

 private:
  Status Yardsticks(int threads) {
    ThreadsSpeed& mine = speed_.threads[static_cast<size_t>(threads - 1)];
    Stopwatch watch;
    ForPieces(b_.layout(), threads, [&](size_t tensor, size_t offset, size_t length) {
      std::memcpy(memory_.tensors[tensor].data() + offset, before_.tensors[tensor].data() + offset, length);
    });
    mine.copy.Note(watch.Lap());
    std::atomic<uint64_t> changed{0};
    watch.Lap();
    ForPieces(b_.layout(), threads, [&](size_t tensor, size_t offset, size_t length) {
      const int unit = DTypeUnit(b_.layout().tensors()[tensor].dtype);
      changed += CountChanges(before_.tensors[tensor].data() + offset, after_.tensors[tensor].data() + offset,
                              length / static_cast<size_t>(unit), unit);
    });
    mine.scan.Note(watch.Lap());
    if (changed != speed_.changed) {
      return Fail(Code::kCorrupt, "the scan finds {} changes, the patch has {}", changed.load(), speed_.changed);
    }
    return {};
  }

  Status Skerry(int threads, size_t level) {
    LevelSpeed& mine = speed_.threads[static_cast<size_t>(threads - 1)].levels[level];
    MemorySink sink;
    sink.bytes().reserve(speed_.bytes / 16);
    Stopwatch watch;
    SKERRY_ASSIGN(const EncodeReceipt receipt,
                  EncodePatch(a_, b_, side_files_, {.threads = threads, .level = kLevels[level], .with_names = false},
                              sink, Progress::None()));
    mine.encode.Note(watch.Lap());
    mine.bytes = receipt.patch_bytes;
    SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(std::move(sink.bytes())));
    SKERRY_ASSIGN(CanonicalCheckpoint canonical,
                  CanonicalCheckpoint::Open(copy_, DefaultStateDirectory(copy_), threads, Progress::None()));
    // There, back, there again: the first apply also fills the mappings' page tables.
    SKERRY_ASSIGN(const ApplyReceipt first, canonical.Apply(patch, {}, threads, Progress::None()));
    mine.first_apply.Note(first.decode_seconds + first.write_seconds);
    SKERRY_TRY(canonical.Apply(*back_, {}, threads, Progress::None()));
    SKERRY_ASSIGN(const ApplyReceipt applied, canonical.Apply(patch, {}, threads, Progress::None()));
    mine.decode.Note(applied.decode_seconds);
    mine.write.Note(applied.write_seconds);
    mine.apply.Note(applied.decode_seconds + applied.write_seconds);
    mine.journal.Note(applied.journal_seconds);
    SKERRY_TRY(CheckFiles());
    SKERRY_TRY(canonical.Apply(*back_, {}, threads, Progress::None()));
    return {};
  }

  Status CheckFiles() const {
    for (const LayoutFile& file : b_.layout().files()) {
      SKERRY_ASSIGN(const FileReader rebuilt, FileReader::Open(copy_ / file.name));
      SKERRY_ASSIGN(const FileReader original, FileReader::Open(b_.directory() / file.name));
      Bytes x, y;
      SKERRY_ASSIGN(const ByteSpan left, rebuilt.Read(0, rebuilt.size(), x));
      SKERRY_ASSIGN(const ByteSpan right, original.Read(0, original.size(), y));
      if (left.size() != right.size() || std::memcmp(left.data(), right.data(), left.size()) != 0) {
        return Fail(Code::kCorrupt, "{} was not rebuilt exactly", file.name);
      }
    }
    return {};
  }

  Status OnePeer(Peer& peer, PeerSpeed& mine) {
    memory_.CopyFrom(before_);
    Stopwatch watch;
    const ByteSpan wire = peer.Encode(before_, after_);
    mine.encode.Note(watch.Lap());
    mine.bytes = wire.size();
    watch.Lap();
    peer.Apply(wire, b_.layout(), memory_);
    mine.apply.Note(watch.Lap());
    if (!memory_.Equals(after_)) return Fail(Code::kCorrupt, "a peer's delta does not rebuild the new version");
    return {};
  }

  const Checkpoint &a_, &b_;
  Model before_, after_;
  WorkingCopy memory_;
  Path copy_;
  DeltaSpeed speed_;
  std::vector<SideFileChange> side_files_;
  std::optional<Patch> back_;
  std::unique_ptr<Peer> nemo_ = MakeNemo(), slime_ = MakeSlime(), positions_ = MakePositions();
};

}  // namespace

Result<DeltaSpeed> MeasureSpeed(const Checkpoint& a, const Checkpoint& b, int reps, const Path& scratch) {
  SKERRY_ASSIGN(Model before, Model::Of(a));
  SKERRY_ASSIGN(Model after, Model::Of(b));
  Run run(a, b, std::move(before), std::move(after), scratch);
  SKERRY_TRY(run.Prepare());
  for (int rep = 0; rep < reps; ++rep) SKERRY_TRY(run.Repeat(rep == 0));
  return run.Finish();
}

}  // namespace skerry
