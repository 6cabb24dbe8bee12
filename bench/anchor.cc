// A whole version as dense blocks, as anchors carry it: its bytes, and the speed of one thread beside memcpy.
#include <fmt/core.h>

#include <cstdlib>

#include "model.h"
#include "skerry/base/clock.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/encoder.h"
#include "skerry/tensors/checkpoint.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {
namespace {

constexpr const char* kUsage = "usage: anchor [--reps N] CHECKPOINT ...\n";

// What the best repetition took, in seconds.
struct Times {
  double encode = 1e300, decode = 1e300;
  uint64_t bytes = 0;

  void Add(const Times& other) {
    encode = std::min(encode, other.encode);
    decode = std::min(decode, other.decode);
    bytes = other.bytes;
  }
};

// The codec alone, cell by cell.
Result<Times> RunBlocks(const Model& model, WorkingCopy& copy) {
  Times times{.encode = 0, .decode = 0};
  Bytes payload;
  BlockChanges changes;
  for (size_t t = 0; t < model.tensors.size(); ++t) {
    const DType dtype = model.layout->tensors()[t].dtype;
    changes.unit = DTypeUnit(dtype);
    const size_t cell = size_t{kCellUnits} * static_cast<size_t>(changes.unit);
    for (size_t at = 0; at < model.tensors[t].size(); at += cell) {
      const ByteSpan values = model.tensors[t].subspan(at, std::min(cell, model.tensors[t].size() - at));
      Stopwatch watch;
      payload.clear();
      EncodeDense(values, dtype, payload);
      times.encode += watch.Lap();
      SKERRY_TRY(DecodeDense(payload, values.size() / static_cast<size_t>(changes.unit), dtype, changes));
      ApplyBlock(changes, copy.tensors[t].data() + at);
      times.decode += watch.Lap();
      times.bytes += payload.size();
    }
  }
  return times;
}

// A patch from nothing, with its checksums and digests.
Result<Times> RunPatch(const Checkpoint& checkpoint, MemorySink& sink, WorkingCopy& copy) {
  Times times;
  sink.bytes().clear();
  Stopwatch watch;
  SKERRY_TRY(EncodePatch(NoTensors(), checkpoint, {}, {.with_names = false, .allow_structural = true}, sink,
                         Progress::None()));
  times.encode = watch.Lap();
  times.bytes = sink.bytes().size();
  SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(Bytes(sink.bytes())));
  watch.Lap();
  SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(checkpoint.layout()));
  for (const PlacedBlock& block : blocks) {
    SKERRY_ASSIGN(const std::vector<RunChanges> decoded, patch.Decode(block, checkpoint.layout(), {}));
    for (const RunChanges& run : decoded) {
      const auto unit = static_cast<uint64_t>(run.changes.unit);
      ApplyBlock(run.changes, copy.tensors[run.run.tensor].data() + run.run.first_unit * unit);
    }
  }
  times.decode = watch.Lap();
  return times;
}

void Print(std::string_view what, const Times& times, double raw, double memcpy_seconds) {
  fmt::print("{:>14} {:9.4f}  {:5.2f} ({:5.3f})  {:5.2f} ({:5.3f})\n", what, static_cast<double>(times.bytes) / raw,
             raw / times.encode / 1e9, memcpy_seconds / times.encode, raw / times.decode / 1e9,
             memcpy_seconds / times.decode);
}

Status Run(const Path& directory, int reps) {
  SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  SKERRY_ASSIGN(const Model model, Model::Of(checkpoint));
  WorkingCopy copy(checkpoint.layout());
  Times blocks, patch;
  MemorySink sink;
  double memcpy_seconds = 1e300;
  for (int rep = 0; rep <= reps; ++rep) {
    Stopwatch watch;
    copy.CopyFrom(model);
    const double copied = watch.Lap();
    std::ranges::fill(copy.memory, std::byte{0x5A});
    SKERRY_ASSIGN(const Times as_blocks, RunBlocks(model, copy));
    if (!copy.Equals(model)) return Fail(Code::kCorrupt, "{}: the blocks differ", directory.string());
    std::ranges::fill(copy.memory, std::byte{0x5A});
    SKERRY_ASSIGN(const Times as_patch, RunPatch(checkpoint, sink, copy));
    if (!copy.Equals(model)) return Fail(Code::kCorrupt, "{}: what the patch gives differs", directory.string());
    if (rep == 0) continue;  // pages and buffers are not there yet
    memcpy_seconds = std::min(memcpy_seconds, copied);
    blocks.Add(as_blocks);
    patch.Add(as_patch);
  }
  const auto raw = static_cast<double>(checkpoint.layout().total_bytes());
  fmt::print("{}: {:.1f} MB in {} tensors\n{:>14} {:>9}  {:^13}  {:^13}\n", directory.string(), raw / 1e6,
             model.tensors.size(), "", "bytes/raw", "encode GB/s", "decode GB/s");
  Print("memcpy", {.encode = memcpy_seconds, .decode = memcpy_seconds, .bytes = static_cast<uint64_t>(raw)}, raw,
        memcpy_seconds);
  Print("dense blocks", blocks, raw, memcpy_seconds);
  Print("whole patch", patch, raw, memcpy_seconds);
  return {};
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  using namespace skerry;
  int reps = 5, at = 1;
  if (at + 1 < argc && std::string_view(argv[at]) == "--reps") {
    reps = std::max(1, std::atoi(argv[at + 1]));
    at += 2;
  }
  if (at >= argc || argv[at][0] == '-') {
    fmt::print(stderr, kUsage);
    return 2;
  }
  for (; at < argc; ++at) {
    if (const Status done = Run(argv[at], reps); !done) {
      fmt::print(stderr, "anchor: {}\n", done.error().message);
      return 1;
    }
  }
  return 0;
}
