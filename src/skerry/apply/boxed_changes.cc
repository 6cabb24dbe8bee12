#include "skerry/apply/boxed_changes.h"

#include <algorithm>
#include <utility>

#include "skerry/apply/moved_words.h"

namespace skerry {
namespace {

// Units from the first one that positions of 32 bits can tell; a whole number of words.
constexpr uint64_t kFarthest = (uint64_t{1} << 32) - 8;

}  // namespace

RunningDigest DigestInTensor(const BoxRuns& places, uint64_t first, ByteSpan bytes) {
  RunningDigest sum;
  while (!bytes.empty()) {
    const uint64_t size = std::min<uint64_t>(bytes.size(), places.bytes() - first % places.bytes());
    sum += DigestWords(bytes.first(size), places.PlaceOf(first) / 8);
    bytes = bytes.subspan(size);
    first += size;
  }
  return sum;
}

RunningDigest MovedInTensor(const BoxRuns& places, uint64_t first, const BlockChanges& changes, ByteSpan old) {
  if (changes.all) return DigestInTensor(places, first, changes.values) - DigestInTensor(places, first, old);
  return MovedWords(changes, old, [&](uint64_t word) { return places.PlaceOf(first + 8 * word) / 8; });
}

Status TakeUnboxed(const BoxView& view, RunChanges changes, const std::function<Status(RunChanges)>& take) {
  const BlockRun run = changes.run;
  const BoxRuns& places = view.runs(run.tensor);
  const BlockChanges& boxed = changes.changes;
  const auto unit = static_cast<uint64_t>(boxed.unit);
  const uint64_t first_byte = run.first_unit * unit;
  Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan old, view.Read(run.tensor, first_byte, run.units * unit, scratch));
  changes.moved = MovedInTensor(places, first_byte, boxed, old);
  changes.run.tensor = view.boxes()[run.tensor].tensor;
  if (first_byte % places.bytes() + run.units * unit <= places.bytes()) {  // one piece in the tensor too
    changes.run.first_unit = places.PlaceOf(first_byte) / unit;
    return take(std::move(changes));
  }
  const size_t count = boxed.count();
  const auto place_of = [&](size_t i) {
    const uint64_t at = run.first_unit + (boxed.all ? i : boxed.positions[i]);
    return places.PlaceOf(at * unit) / unit;
  };
  for (size_t done = 0; done < count;) {
    RunChanges part{.run = {.tensor = changes.run.tensor, .first_unit = place_of(done), .units = 0},
                    .changes = {.unit = boxed.unit},
                    .moved = std::exchange(changes.moved, {})};
    size_t next = done;
    for (; next < count && place_of(next) - part.run.first_unit < kFarthest; ++next) {
      part.changes.positions.push_back(static_cast<uint32_t>(place_of(next) - part.run.first_unit));
    }
    const auto values = ByteSpan(boxed.values).subspan(done * unit, (next - done) * unit);
    part.changes.values.assign(values.begin(), values.end());
    part.run.units = part.changes.positions.back() + uint64_t{1};
    SKERRY_TRY(take(std::move(part)));
    done = next;
  }
  return {};
}

}  // namespace skerry
