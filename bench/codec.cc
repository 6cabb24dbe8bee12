// Bytes and speed of the codec beside yardsticks, peers and bounds in the same run, on a pair or a chain of
// checkpoints.
#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "report.h"

namespace skerry {
namespace {

constexpr const char* kUsage =
    R"(usage: codec [OPTIONS] V0 V1 [V2 ...]
  --bytes-only    no speed
  --speed-only    no bytes of slow peers, no bounds
  --patch-from    also zstd -19 --patch-from of whole shards
  --bsdiff        also bsdiff of whole shards, where it is installed (1-2 MB/s)
  --reps N        repetitions of the speed part; the best counts (3)
  --scratch DIR   where to apply (/dev/shm)
  --json          instead of tables
)";

struct Options {
  bool bytes = true, speed = true, json = false;
  int reps = 3;
  SlowPeers slow{.scratch = "/dev/shm"};
  std::vector<Path> versions;
};

Status Run(const Options& options) {
  std::vector<DeltaCost> costs;
  std::vector<DeltaSpeed> speeds;
  for (size_t i = 0; i + 1 < options.versions.size(); ++i) {
    SKERRY_ASSIGN(const Checkpoint before, Checkpoint::Open(options.versions[i]));
    SKERRY_ASSIGN(const Checkpoint after, Checkpoint::Open(options.versions[i + 1]));
    if (options.bytes) {
      SKERRY_ASSIGN(DeltaCost cost, MeasureBytes(before, after, options.slow));
      costs.push_back(std::move(cost));
    }
    if (options.speed) {
      SKERRY_ASSIGN(DeltaSpeed speed, MeasureSpeed(before, after, options.reps, options.slow.scratch));
      speeds.push_back(std::move(speed));
    }
  }
  if (options.json) {
    nlohmann::ordered_json all;
    if (options.bytes) all["bytes"] = BytesJson(costs);
    if (options.speed) all["speed"] = SpeedJson(speeds);
    fmt::print("{}\n", all.dump(2));
    return {};
  }
  if (options.bytes) PrintBytes(costs);
  if (options.speed) PrintSpeed(speeds);
  return {};
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  skerry::Options options;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--reps" && i + 1 < argc) {
      options.reps = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--scratch" && i + 1 < argc) {
      options.slow.scratch = argv[++i];
    } else if (argument == "--bytes-only") {
      options.speed = false;
    } else if (argument == "--speed-only") {
      options.bytes = false;
    } else if (argument == "--patch-from") {
      options.slow.patch_from = true;
    } else if (argument == "--bsdiff") {
      options.slow.bsdiff = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument.starts_with("--")) {
      understood = false;
    } else {
      options.versions.emplace_back(argument);
    }
  }
  if (!understood || options.versions.size() < 2) {
    fmt::print(stderr, "{}", skerry::kUsage);
    return 2;
  }
  const auto status = skerry::Run(options);
  if (!status) fmt::print(stderr, "codec: {}\n", status.error().message);
  return status ? 0 : 1;
}
