// What one delta costs in bytes: Skerry at both levels, the peers, and the bounds.
#ifndef SKERRY_BENCH_MEASURE_BYTES_H_
#define SKERRY_BENCH_MEASURE_BYTES_H_

#include <array>
#include <map>
#include <optional>
#include <string>

#include "bounds.h"
#include "skerry/patch/encoder.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

inline constexpr std::array<Level, 2> kLevels = {Level::kFast, Level::kCompact};
inline constexpr std::array<const char*, 2> kLevelNames = {"fast", "compact"};
using PerLevel = std::array<uint64_t, 2>;

// What one dtype's tensors cost. `payload` is the patch's blocks without what stands around them (directory, tables,
// info).
struct DTypeCost {
  Bound bound;
  PerLevel payload{}, blocks{};
};

struct DeltaCost {
  std::string step;
  PerLevel skerry{};  // whole files
  uint64_t slime = 0, nemo = 0, positions = 0;
  std::optional<uint64_t> patch_from, bsdiff;
  std::map<DType, DTypeCost> dtypes;

  Bound Total() const;
  void Add(const DeltaCost& other);
};

struct SlowPeers {
  bool patch_from = false, bsdiff = false;
  Path scratch;
};

// Every delta is also applied and the result compared with `after`.
Result<DeltaCost> MeasureBytes(const Checkpoint& before, const Checkpoint& after, const SlowPeers& slow);

}  // namespace skerry

#endif  // SKERRY_BENCH_MEASURE_BYTES_H_
