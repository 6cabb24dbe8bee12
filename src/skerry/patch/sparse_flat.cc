#include "skerry/patch/sparse_flat.h"

namespace skerry {

void EncodeSparseFlat(uint64_t units, std::span<const uint32_t> positions, std::span<const StepToken> tokens,
                      const SymbolTable& value_table, Bytes& out) {
  const Strand strand{.members = units, .changed = positions, .tokens = tokens, .values = &value_table};
  EncodeStrands({&strand, 1}, out);
}

Status DecodeSparseFlat(ByteSpan payload, uint64_t count, DType dtype, const SymbolTable& value_table,
                        std::span<const OldRun> runs, BlockChanges& changes, std::span<RunningDigest> moved) {
  thread_local DecodedSteps steps;
  const StrandShape strand{.members = UnitsOf(runs, DTypeUnit(dtype)), .changed = count, .values = &value_table};
  if (count > strand.members) return Fail(Code::kCorrupt, "{} changes among {} units", count, strand.members);
  SKERRY_TRY(DecodeStrands(payload, {&strand, 1}, 8 * DTypeUnit(dtype), steps,
                           {.data = runs.front().bytes.data(), .stride = static_cast<size_t>(DTypeUnit(dtype))}));
  changes.all = false;
  changes.positions.swap(steps.members);
  return TakeSteps(dtype, runs, steps.ranks, steps.escaped, changes, moved);
}

}  // namespace skerry
