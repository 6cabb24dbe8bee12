// A whole version as dense blocks, as anchors carry it: its bytes, and the speed of one thread beside memcpy.
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "model.h"
#include "skerry/base/clock.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/encoder.h"
#include "skerry/tensors/checkpoint.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {
namespace {

constexpr const char* kUsage = "usage: anchor [--reps N] CHECKPOINT ...\n";

// Seconds of parts of the work, a few milliseconds each. The best repetition of each part counts, since the host may be
// busy with other things for longer than a part takes.
class Parts {
 public:
  void Begin() { next_ = 0; }
  void Add(double seconds) {
    if (next_ == best_.size()) best_.push_back(seconds);
    best_[next_] = std::min(best_[next_], seconds);
    ++next_;
  }
  double Total() const { return std::accumulate(best_.begin(), best_.end(), 0.0); }

 private:
  std::vector<double> best_;
  size_t next_ = 0;
};

struct Times {
  Parts encode, decode;
  uint64_t bytes = 0;
};

constexpr size_t kPartBytes = 2 << 20;

void RunCopy(const WorkingCopy& original, WorkingCopy& copy, Parts& parts) {
  parts.Begin();
  for (size_t at = 0; at < original.memory.size(); at += kPartBytes) {
    Stopwatch watch;
    std::memcpy(copy.memory.data() + at, original.memory.data() + at,
                std::min(kPartBytes, original.memory.size() - at));
    parts.Add(watch.Lap());
  }
}

// The codec alone, cell by cell.
Status RunBlocks(const Layout& layout, const WorkingCopy& original, WorkingCopy& copy, Times& times) {
  times.encode.Begin();
  times.decode.Begin();
  times.bytes = 0;
  double encode = 0, decode = 0;
  size_t done = 0;
  Bytes payload;
  BlockChanges changes;
  const auto end_part = [&] {
    times.encode.Add(std::exchange(encode, 0));
    times.decode.Add(std::exchange(decode, 0));
    done = 0;
  };
  for (size_t t = 0; t < original.tensors.size(); ++t) {
    const ByteSpan tensor = original.tensors[t];
    const DType dtype = layout.tensors()[t].dtype;
    changes.unit = DTypeUnit(dtype);
    const size_t cell = size_t{kCellUnits} * static_cast<size_t>(changes.unit);
    for (size_t at = 0; at < tensor.size(); at += cell) {
      const ByteSpan values = tensor.subspan(at, std::min(cell, tensor.size() - at));
      Stopwatch watch;
      payload.clear();
      EncodeDense(values, dtype, payload);
      encode += watch.Lap();
      SKERRY_TRY(DecodeDense(payload, values.size() / static_cast<size_t>(changes.unit), dtype, changes));
      ApplyBlock(changes, copy.tensors[t].data() + at);
      decode += watch.Lap();
      times.bytes += payload.size();
      done += values.size();
      if (done >= kPartBytes) end_part();
    }
  }
  end_part();
  return {};
}

// Keeps what it is given, and takes the time.
class TimedSink : public ByteSink {
 public:
  explicit TimedSink(Parts& parts) : parts_(parts) {}

  void Begin() {
    bytes_.clear();
    in_part_ = 0;
    parts_.Begin();
    watch_.Lap();
  }
  Status Append(ByteSpan bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    in_part_ += bytes.size();
    if (in_part_ >= kPartBytes) End();
    return {};
  }
  void End() {
    parts_.Add(watch_.Lap());
    in_part_ = 0;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Parts& parts_;
  Bytes bytes_;
  uint64_t in_part_ = 0;
  Stopwatch watch_;
};

// A patch from nothing, with its checksums and digests.
Status RunPatch(const Checkpoint& checkpoint, TimedSink& sink, WorkingCopy& copy, Times& times) {
  sink.Begin();
  SKERRY_TRY(EncodePatch(NoTensors(), checkpoint, {}, {.with_names = false, .allow_structural = true}, sink,
                         Progress::None()));
  sink.End();
  times.bytes = sink.bytes().size();
  SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(Bytes(sink.bytes())));
  times.decode.Begin();
  Stopwatch watch;
  uint64_t done = 0;
  SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(checkpoint.layout()));
  for (const PlacedBlock& block : blocks) {
    SKERRY_ASSIGN(const std::vector<RunChanges> decoded, patch.Decode(block, checkpoint.layout(), {}));
    for (const RunChanges& run : decoded) {
      const auto unit = static_cast<uint64_t>(run.changes.unit);
      ApplyBlock(run.changes, copy.tensors[run.run.tensor].data() + run.run.first_unit * unit);
      done += run.run.units * unit;
    }
    if (done < kPartBytes) continue;
    times.decode.Add(watch.Lap());
    done = 0;
  }
  times.decode.Add(watch.Lap());
  return {};
}

void Print(std::string_view what, const Times& times, double raw, double memcpy_seconds) {
  const double encode = times.encode.Total(), decode = times.decode.Total();
  fmt::print("{:>14} {:9.4f}  {:5.2f} ({:5.3f})  {:5.2f} ({:5.3f})\n", what, static_cast<double>(times.bytes) / raw,
             raw / encode / 1e9, memcpy_seconds / encode, raw / decode / 1e9, memcpy_seconds / decode);
}

Status Run(const Path& directory, int reps) {
  SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  SKERRY_ASSIGN(const Model model, Model::Of(checkpoint));
  WorkingCopy original(checkpoint.layout()), copy(checkpoint.layout());
  original.CopyFrom(model);
  Parts copied;
  Times blocks, patch;
  TimedSink sink(patch.encode);
  for (int rep = 0; rep < reps; ++rep) {
    RunCopy(original, copy, copied);
    std::ranges::fill(copy.memory, std::byte{0x5A});
    SKERRY_TRY(RunBlocks(checkpoint.layout(), original, copy, blocks));
    if (!copy.Equals(model)) return Fail(Code::kCorrupt, "{}: the blocks differ", directory.string());
    std::ranges::fill(copy.memory, std::byte{0x5A});
    SKERRY_TRY(RunPatch(checkpoint, sink, copy, patch));
    if (!copy.Equals(model)) return Fail(Code::kCorrupt, "{}: what the patch gives differs", directory.string());
  }
  const auto raw = static_cast<double>(checkpoint.layout().total_bytes());
  fmt::print("{}: {:.1f} MB in {} tensors, memcpy {:.2f} GB/s\n{:>14} {:>9}  {:^13}  {:^13}\n", directory.string(),
             raw / 1e6, model.tensors.size(), raw / copied.Total() / 1e9, "", "bytes/raw", "encode GB/s",
             "decode GB/s");
  Print("dense blocks", blocks, raw, copied.Total());
  Print("whole patch", patch, raw, copied.Total());
  return {};
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  using namespace skerry;
  int reps = 7, at = 1;
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
