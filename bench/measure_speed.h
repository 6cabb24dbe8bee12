// How fast one delta is made and applied: Skerry at both levels, NeMo's layout, and yardsticks in the same run.
//
// Applying happens in place on a copy in a scratch folder (memory, by default) with the real journal there; the time
// spent on the journal stands beside. It is taken on a mapping whose page tables are filled, as in an agent that
// follows a run; the first apply after opening is noted apart. Peers get a buffer of ordinary memory, neither check nor
// journal.
#ifndef SKERRY_BENCH_MEASURE_SPEED_H_
#define SKERRY_BENCH_MEASURE_SPEED_H_

#include <algorithm>
#include <array>
#include <string>

#include "skerry/base/file.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// Seconds of one way to do a thing, the best of several repetitions (the machines are shared).
struct Best {
  double seconds = 1e300;
  void Note(double s) { seconds = std::min(seconds, s); }
};

struct LevelSpeed {
  Best encode, apply, first_apply, decode, write, journal;
  uint64_t bytes = 0;
};

struct ThreadsSpeed {
  Best copy, scan;
  std::array<LevelSpeed, 2> levels;  // as kLevels
};

struct PeerSpeed {
  Best encode, apply;
  uint64_t bytes = 0;
};

struct DeltaSpeed {
  std::string step;
  uint64_t bytes = 0, units = 0, changed = 0;  // of the checkpoint
  std::array<ThreadsSpeed, 2> threads;         // one, two
  PeerSpeed nemo, slime, positions;            // one thread
};

// Every apply is checked against `after`.
Result<DeltaSpeed> MeasureSpeed(const Checkpoint& before, const Checkpoint& after, int reps, const Path& scratch);

}  // namespace skerry

#endif  // SKERRY_BENCH_MEASURE_SPEED_H_
