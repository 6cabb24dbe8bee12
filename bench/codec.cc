// Bytes and speed of the codec, beside yardsticks and peers in the same run, on a pair or a chain of checkpoints.
//
// usage: codec [--reps N] [--scratch DIR] [--no-peers] [--json] V0 V1 [V2 ...]
//
// Bytes: the whole patch files, everything counted. Speed: rates count the bytes of one checkpoint; every ratio is
// against the plain vectorised compare-scan of the same two checkpoints in the same run, both read through warm
// mappings. Applying happens in place on a copy in DIR (default /dev/shm), with the real journal there; the time spent
// on the journal is reported beside.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "peers.h"
#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/base/clock.h"
#include "skerry/base/simd.h"
#include "skerry/diff/find_changes.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/side_files.h"

namespace skerry {
namespace {

struct Options {
  int reps = 3;
  Path scratch = "/dev/shm";
  bool peers = true;
  bool json = false;
  std::vector<Path> versions;
};

// Seconds of one way to do a thing, the best of several repetitions (the machines are shared).
struct Best {
  double seconds = 1e300;
  void Note(double s) { seconds = std::min(seconds, s); }
};

struct Row {
  std::string from, to;
  uint64_t bytes = 0, units = 0, changed = 0;
  uint64_t skerry = 0, xor_zstd = 0, patch_from = 0;
  Best copy[2], scan[2], encode[2], apply[2], cold[2], decode[2], write[2], journal[2];  // [threads - 1]
  Best peer_encode, peer_apply;
};

// Splits all tensors into pieces of a few MiB and runs them on `threads` threads.
void ForPieces(const Checkpoint& a, const Checkpoint& b, int threads,
               const std::function<void(ByteSpan, ByteSpan, int)>& run) {
  struct Piece {
    size_t tensor;
    uint64_t offset, length;
  };
  std::vector<Piece> pieces;
  const auto& tensors = a.layout().tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (uint64_t at = 0; at < tensors[i].bytes; at += 8 << 20) {
      pieces.push_back({i, at, std::min<uint64_t>(8 << 20, tensors[i].bytes - at)});
    }
  }
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      Bytes scratch_a, scratch_b;
      for (size_t i = static_cast<size_t>(t); i < pieces.size(); i += static_cast<size_t>(threads)) {
        const auto before = a.Read(pieces[i].tensor, pieces[i].offset, pieces[i].length, scratch_a);
        const auto after = b.Read(pieces[i].tensor, pieces[i].offset, pieces[i].length, scratch_b);
        if (!before || !after) std::abort();
        run(*before, *after, DTypeUnit(tensors[pieces[i].tensor].dtype));
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
}

void Yardsticks(const Checkpoint& a, const Checkpoint& b, int threads, Row& row) {
  // One buffer a thread, the size of a piece, would measure the cache: copy to a buffer of the whole size.
  static Bytes target;
  target.resize(row.bytes);
  std::atomic<uint64_t> at{0};
  Stopwatch watch;
  ForPieces(a, b, threads, [&](ByteSpan before, ByteSpan, int) {
    std::memcpy(target.data() + at.fetch_add(before.size()), before.data(), before.size());
  });
  row.copy[threads - 1].Note(watch.Lap());
  std::atomic<uint64_t> changed{0};
  watch.Lap();
  ForPieces(a, b, threads, [&](ByteSpan before, ByteSpan after, int unit) {
    changed += CountChanges(before.data(), after.data(), before.size() / static_cast<size_t>(unit), unit);
  });
  row.scan[threads - 1].Note(watch.Lap());
  if (row.changed != 0 && changed != row.changed) {
    fmt::print(stderr, "codec: the scan finds {} changes, the patch has {}\n", changed.load(), row.changed);
    std::exit(1);
  }
}

Status Measure(const Options& options, const Checkpoint& a, const Checkpoint& b, Row& row) {
  row.from = a.directory().filename().string();
  row.to = b.directory().filename().string();
  row.bytes = b.layout().total_bytes();
  SKERRY_ASSIGN(const std::vector<SideFileChange> side_files, CompareSideFiles(a, b));
  SKERRY_ASSIGN(const std::vector<SideFileChange> side_files_back, CompareSideFiles(b, a));
  MemorySink back_sink;
  SKERRY_ASSIGN([[maybe_unused]] const EncodeReceipt back_receipt,
                EncodePatch(b, a, side_files_back, {.threads = 2, .with_names = false}, back_sink, Progress::None()));
  SKERRY_ASSIGN(const Patch back, Patch::FromBytes(std::move(back_sink.bytes())));
  const Path copy = options.scratch / "skerry-bench-codec";
  for (int rep = 0; rep < options.reps; ++rep) {
    for (int threads = 1; threads <= 2; ++threads) {
      Yardsticks(a, b, threads, row);
      MemorySink sink;
      sink.bytes().reserve(row.bytes / 16);
      Stopwatch watch;
      SKERRY_ASSIGN(const EncodeReceipt receipt,
                    EncodePatch(a, b, side_files, {.threads = threads, .with_names = false}, sink, Progress::None()));
      row.encode[threads - 1].Note(watch.Lap());
      row.units = receipt.info.units;
      row.changed = receipt.info.changed;
      row.skerry = receipt.patch_bytes;

      SKERRY_TRY(RemoveTree(copy));
      SKERRY_TRY(MakeDirectories(copy));
      for (const LayoutFile& file : a.layout().files()) {
        SKERRY_TRY(CopyFile(a.directory() / file.name, copy / file.name));
      }
      for (const SideFileInfo& file : a.side_files()) {
        SKERRY_TRY(MakeDirectories((copy / file.path).parent_path()));
        SKERRY_TRY(CopyFile(a.directory() / file.path, copy / file.path));
      }
      SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(std::move(sink.bytes())));
      SKERRY_ASSIGN(CanonicalCheckpoint canonical,
                    CanonicalCheckpoint::Open(copy, DefaultStateDirectory(copy), threads, Progress::None()));
      // There, back, and there again: the first apply also fills the mapping's page tables, which an agent does once in
      // its life.
      SKERRY_ASSIGN(const ApplyReceipt cold, canonical.Apply(patch, {}, threads, Progress::None()));
      row.cold[threads - 1].Note(cold.decode_seconds + cold.write_seconds);
      SKERRY_ASSIGN([[maybe_unused]] const ApplyReceipt undone, canonical.Apply(back, {}, threads, Progress::None()));
      SKERRY_ASSIGN(const ApplyReceipt applied, canonical.Apply(patch, {}, threads, Progress::None()));
      row.decode[threads - 1].Note(applied.decode_seconds);
      row.write[threads - 1].Note(applied.write_seconds);
      row.apply[threads - 1].Note(applied.decode_seconds + applied.write_seconds);
      row.journal[threads - 1].Note(applied.journal_seconds);
      for (const LayoutFile& file : b.layout().files()) {
        SKERRY_ASSIGN(const FileReader rebuilt, FileReader::Open(copy / file.name));
        SKERRY_ASSIGN(const FileReader original, FileReader::Open(b.directory() / file.name));
        Bytes x, y;
        SKERRY_ASSIGN(const ByteSpan left, rebuilt.Read(0, rebuilt.size(), x));
        SKERRY_ASSIGN(const ByteSpan right, original.Read(0, original.size(), y));
        if (left.size() != right.size() || std::memcmp(left.data(), right.data(), left.size()) != 0) {
          return Fail(Code::kCorrupt, "{} was not rebuilt exactly", file.name);
        }
      }
      SKERRY_TRY(RemoveTree(copy));
    }
  }
  if (!options.peers) return {};
  for (size_t i = 0; i < a.layout().tensors().size(); ++i) {
    const uint64_t size = a.layout().tensors()[i].bytes;
    Bytes x, y;
    SKERRY_ASSIGN(const ByteSpan before, a.Read(i, 0, size, x));
    SKERRY_ASSIGN(const ByteSpan after, b.Read(i, 0, size, y));
    Stopwatch watch;
    const Bytes packed = XorZstd(before, after);
    const double encode = watch.Lap();
    Bytes model = ToBytes(before);
    watch.Lap();
    ApplyXorZstd(packed, model);
    const double apply = watch.Lap();
    if (std::memcmp(model.data(), after.data(), size) != 0) return Fail(Code::kCorrupt, "XOR + zstd is wrong");
    if (i == 0) row.peer_encode.seconds = row.peer_apply.seconds = 0;
    row.peer_encode.seconds += encode;
    row.peer_apply.seconds += apply;
    row.xor_zstd += packed.size();
    row.patch_from += ZstdPatchFrom(before, after, 3).size();
  }
  return {};
}

void Print(const Options& options, const std::vector<Row>& rows) {
  Row sum{.from = "all", .to = ""};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  fmt::memory_buffer text;
  const auto line = [&](std::string_view format, auto&&... args) {
    if (!options.json) fmt::print(fmt::runtime(format), args...);
  };
  const auto per = [](uint64_t bytes, uint64_t changed) {
    return changed == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(changed);
  };
  line("bytes (whole files)\n{:>12} {:>12} {:>9} {:>12} {:>8} {:>12} {:>8} {:>12} {:>8}\n", "step", "changed",
       "density", "skerry fast", "B/change", "XOR+zstd-1", "B/change", "patch-from", "B/change");
  for (const Row& row : rows) {
    line("{:>12} {:>12} {:>8.4f}% {:>12} {:>8.3f} {:>12} {:>8.3f} {:>12} {:>8.3f}\n", row.from + "-" + row.to,
         row.changed, 100 * per(row.changed, row.units), row.skerry, per(row.skerry, row.changed), row.xor_zstd,
         per(row.xor_zstd, row.changed), row.patch_from, per(row.patch_from, row.changed));
    sum.changed += row.changed;
    sum.units += row.units;
    sum.skerry += row.skerry;
    sum.xor_zstd += row.xor_zstd;
    sum.patch_from += row.patch_from;
  }
  line("{:>12} {:>12} {:>8.4f}% {:>12} {:>8.3f} {:>12} {:>8.3f} {:>12} {:>8.3f}\n", "all", sum.changed,
       100 * per(sum.changed, sum.units), sum.skerry, per(sum.skerry, sum.changed), sum.xor_zstd,
       per(sum.xor_zstd, sum.changed), sum.patch_from, per(sum.patch_from, sum.changed));

  line("\nspeed, {} (rates in GB of one checkpoint a second; ratio = rate / compare-scan's, same threads)\n",
       SimdName());
  line("{:>12} {:>2} {:>7} {:>7} {:>14} {:>14} {:>8} {:>8} {:>9} {:>14}  {:>15}\n", "step", "t", "memcpy", "scan",
       "diff+encode", "apply in place", "(decode", "write)", "+journal", "first apply", "XOR+zstd enc/ap");
  for (const Row& row : rows) {
    nlohmann::ordered_json item = {{"from", row.from},
                                   {"to", row.to},
                                   {"checkpoint_bytes", row.bytes},
                                   {"elements", row.units},
                                   {"changed", row.changed},
                                   {"patch_bytes", row.skerry},
                                   {"xor_zstd_bytes", row.xor_zstd},
                                   {"patch_from_bytes", row.patch_from}};
    for (int t = 0; t < 2; ++t) {
      const auto rate = [&](const Best& best) { return static_cast<double>(row.bytes) / best.seconds / 1e9; };
      const double scan = row.scan[t].seconds;
      line(
          "{:>12} {:>2} {:>7.2f} {:>7.2f} {:>6.2f} ({:>5.2f}) {:>6.2f} ({:>5.2f}) {:>7.3f}s {:>7.3f}s {:>8.3f}s "
          "{:>6.2f} ({:>5.2f})  {}\n",
          row.from + "-" + row.to, t + 1, rate(row.copy[t]), rate(row.scan[t]), rate(row.encode[t]),
          scan / row.encode[t].seconds, rate(row.apply[t]), scan / row.apply[t].seconds, row.decode[t].seconds,
          row.write[t].seconds, row.journal[t].seconds, rate(row.cold[t]), scan / row.cold[t].seconds,
          options.peers && t == 0 ? fmt::format("{:.2f} / {:.2f}", rate(row.peer_encode), rate(row.peer_apply)) : "");
      item["threads"].push_back({{"threads", t + 1},
                                 {"memcpy_gbs", rate(row.copy[t])},
                                 {"scan_gbs", rate(row.scan[t])},
                                 {"encode_to_scan", scan / row.encode[t].seconds},
                                 {"apply_to_scan", scan / row.apply[t].seconds},
                                 {"first_apply_to_scan", scan / row.cold[t].seconds},
                                 {"decode_seconds", row.decode[t].seconds},
                                 {"write_seconds", row.write[t].seconds},
                                 {"journal_seconds", row.journal[t].seconds}});
    }
    list.push_back(std::move(item));
  }
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"simd", SimdName()},
                                              {"steps", list},
                                              {"all",
                                               {{"changed", sum.changed},
                                                {"patch_bytes", sum.skerry},
                                                {"bytes_per_changed", per(sum.skerry, sum.changed)},
                                                {"xor_zstd_per_changed", per(sum.xor_zstd, sum.changed)},
                                                {"patch_from_per_changed", per(sum.patch_from, sum.changed)}}}}
                           .dump(2));
  }
}

Status Run(const Options& options) {
  std::vector<Row> rows;
  for (size_t i = 0; i + 1 < options.versions.size(); ++i) {
    SKERRY_ASSIGN(const Checkpoint a, Checkpoint::Open(options.versions[i]));
    SKERRY_ASSIGN(const Checkpoint b, Checkpoint::Open(options.versions[i + 1]));
    Row row;
    SKERRY_TRY(Measure(options, a, b, row));
    rows.push_back(std::move(row));
  }
  Print(options, rows);
  return {};
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  skerry::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--reps" && i + 1 < argc) {
      options.reps = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--scratch" && i + 1 < argc) {
      options.scratch = argv[++i];
    } else if (argument == "--no-peers") {
      options.peers = false;
    } else if (argument == "--json") {
      options.json = true;
    } else {
      options.versions.emplace_back(argument);
    }
  }
  if (options.versions.size() < 2) {
    fmt::print(stderr, "usage: codec [--reps N] [--scratch DIR] [--no-peers] [--json] V0 V1 [V2 ...]\n");
    return 2;
  }
  const auto status = skerry::Run(options);
  if (!status) fmt::print(stderr, "codec: {}\n", status.error().message);
  return status ? 0 : 1;
}
