#include "skerry/patch/sparse_magnitude.h"

namespace skerry {

void EncodeSparseMagnitude(const MagnitudeModel& model, const ClassedChanges& changes, Bytes& out) {
  const auto classes = static_cast<size_t>(model.classes().count());
  const size_t count = changes.class_of.size();
  // A counting sort by class keeps the numbers of each class rising.
  thread_local std::vector<uint32_t> numbers;
  thread_local std::vector<StepToken> tokens;
  numbers.resize(count);
  tokens.resize(count);
  std::array<size_t, kMaxClasses + 1> start{};
  for (const uint8_t c : changes.class_of) ++start[c + 1u];
  ByteWriter writer(out);
  for (size_t c = 0; c < classes; ++c) {
    writer.Varint(start[c + 1]);
    start[c + 1] += start[c];
  }
  std::array<Strand, kMaxClasses> strands;
  for (size_t c = 0; c < classes; ++c) {
    strands[c] = {.members = changes.members[c],
                  .changed = std::span(numbers).subspan(start[c], start[c + 1] - start[c]),
                  .tokens = std::span(tokens).subspan(start[c], start[c + 1] - start[c]),
                  .values = &model.values(static_cast<int>(c))};
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t at = start[changes.class_of[i]]++;
    numbers[at] = changes.number_of[i];
    tokens[at] = changes.tokens[i];
  }
  EncodeStrands(std::span(strands).first(classes), out);
}

Status DecodeSparseMagnitude(ByteSpan payload, uint64_t count, DType dtype, const MagnitudeModel& model,
                             std::span<const OldRun> runs, BlockChanges& changes, std::span<RunningDigest> moved) {
  thread_local std::vector<uint8_t> rows;
  thread_local DecodedSteps steps;
  thread_local std::vector<uint32_t> ranks;
  const MagnitudeClasses& classes = model.classes();
  const MagnitudeView& view = classes.view();
  const auto class_count = static_cast<size_t>(classes.count());

  size_t rows_bytes = 0;
  for (const OldRun& run : runs) rows_bytes += RowsBytes(ElementsIn(run.bytes, view), classes.count());
  rows.resize(rows_bytes + kRowSlack);
  ClassCounts members{};
  size_t at = 0;
  for (const OldRun& run : runs) {
    CountMembers(run.bytes, classes, rows.data() + at, members);
    at += RowsBytes(ElementsIn(run.bytes, view), classes.count());
  }

  ByteReader reader(payload);
  std::array<StrandShape, kMaxClasses> strands;
  uint64_t elements_changed = 0;
  for (size_t c = 0; c < class_count; ++c) {
    const uint64_t changed = reader.Varint();
    if (!reader.ok() || changed > members[c]) {
      return Fail(Code::kCorrupt, "{} changes among {} members of class {}", changed, members[c], c);
    }
    strands[c] = {.members = members[c], .changed = changed, .values = &model.values(static_cast<int>(c))};
    elements_changed += changed;
  }
  // Every change of a byte changes one or two of its codes.
  const uint64_t most = view.bits == 4 ? 2 * count : count;
  if (elements_changed < count || elements_changed > most) {
    return Fail(Code::kCorrupt, "{} changes in the classes, but {} are announced", elements_changed, count);
  }
  SKERRY_TRY(DecodeStrands(reader.Raw(reader.remaining()), std::span(strands).first(class_count), view.bits, steps));

  WantedMembers wanted;
  size_t first = 0;
  for (size_t c = 0; c < kMaxClasses; ++c) {
    const size_t changed = c < class_count ? strands[c].changed : 0;
    wanted.Add(static_cast<int>(c), std::span(steps.members).subspan(first, changed), steps.ranks.data() + first);
    first += changed;
  }
  changes.all = false;
  changes.positions.resize(elements_changed);
  ranks.resize(elements_changed);
  size_t found = 0, first_position = 0;
  at = 0;
  for (const OldRun& run : runs) {
    const size_t elements = ElementsIn(run.bytes, view);
    found += FindMembers(run.bytes, classes, rows.data() + at, wanted, static_cast<uint32_t>(first_position),
                         changes.positions.data() + found, ranks.data() + found);
    at += RowsBytes(elements, classes.count());
    first_position += elements;
  }
  // The base may be written to by others while we read it: then what was counted is not there any more.
  if (found != elements_changed) return Fail(Code::kCorrupt, "the old bytes changed while they were read");
  if (view.bits != 4) return TakeSteps(dtype, runs, ranks, steps.escaped, changes, moved);
  SKERRY_TRY(TakeCodeSteps(dtype, view.has_sign(), runs, ranks, steps.escaped, changes, moved));
  if (changes.positions.size() != count) {
    return Fail(Code::kCorrupt, "{} bytes change, but {} are announced", changes.positions.size(), count);
  }
  return {};
}

}  // namespace skerry
