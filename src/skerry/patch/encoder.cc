#include "skerry/patch/encoder.h"

#include <algorithm>
#include <set>

#include "skerry/base/clock.h"
#include "skerry/base/parallel.h"
#include "skerry/diff/find_changes.h"
#include "skerry/patch/block.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/sparse_flat.h"

namespace skerry {
namespace {

constexpr int64_t kNoBase = -1;

// A dense block is tried where the sparse one is longer than this part of the raw bytes.
constexpr uint64_t kDenseWorthTrying = 3;

// The survey looks at every k-th cell, so that it reads at most about this many.
constexpr uint64_t kSurveyCells = 256;

// The unit of parallel work: up to kMaxCellsPerBlock cells of one tensor.
struct Task {
  size_t tensor = 0;        // ordinal in the target
  int64_t base = kNoBase;   // ordinal in the base
  uint64_t first_cell = 0;  // over all tensors of the target
  uint64_t first_unit = 0;  // within the tensor
  uint64_t units = 0;
};

struct EncodedTask {
  std::vector<std::pair<BlockEntry, Bytes>> blocks;
  RunningDigest base, target;
  uint64_t changed = 0;
  double compare_seconds = 0, encode_seconds = 0;
};

// The changes of a block while its cells are being compared. Buffers are reused between blocks.
struct OpenBlock {
  BlockChanges changes;
  std::vector<StepToken> tokens;

  void Clear() {
    changes.all = false;
    changes.positions.clear();
    changes.values.clear();
    tokens.clear();
  }
};

// Takes over the changes at `positions` of a cell, which begins at unit `offset` of the block, and returns by how much
// they move the tensor's digest; the cell's first word is `first_word`. Reads each changed word of both sides once.
template <typename T>
RunningDigest TakeCell(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, uint32_t offset,
                       uint64_t first_word, bool sign_magnitude, OpenBlock& block) {
  constexpr uint32_t kPerWord = 8 / sizeof(T);
  const size_t count = positions.size(), base = block.tokens.size();
  block.changes.positions.resize(base + count);
  block.changes.values.resize((base + count) * sizeof(T));
  block.tokens.resize(base + count);
  uint32_t* position_out = block.changes.positions.data() + base;
  std::byte* value_out = block.changes.values.data() + base * sizeof(T);
  StepToken* token_out = block.tokens.data() + base;
  RunningDigest moved;
  uint32_t last_word = ~0u;
  const auto word_at = [](ByteSpan bytes, uint32_t word) {
    uint64_t value = 0;
    const size_t at = size_t{word} * 8;
    if (at + 8 <= bytes.size()) [[likely]] {
      value = LoadLe<uint64_t>(bytes.data() + at);
    } else {
      std::memcpy(&value, bytes.data() + at, bytes.size() - at);
    }
    return value;
  };
  for (size_t i = 0; i < count; ++i) {
    const uint32_t position = positions[i];
    const T old_bits = LoadLe<T>(before.data() + size_t{position} * sizeof(T));
    const T new_bits = LoadLe<T>(after.data() + size_t{position} * sizeof(T));
    position_out[i] = offset + position;
    StoreLe(value_out + i * sizeof(T), new_bits);
    token_out[i] = TokenOf(old_bits, new_bits, sign_magnitude);
    const uint32_t word = position / kPerWord;
    if (word == last_word) continue;
    last_word = word;
    moved += MixWord(first_word + word, word_at(after, word)) - MixWord(first_word + word, word_at(before, word));
  }
  return moved;
}

RunningDigest TakeCell(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, uint32_t offset,
                       uint64_t first_word, DType dtype, OpenBlock& block) {
  const bool sign_magnitude = DTypeIsSignMagnitude(dtype);
  switch (DTypeUnit(dtype)) {
    case 1: return TakeCell<uint8_t>(before, after, positions, offset, first_word, sign_magnitude, block);
    case 2: return TakeCell<uint16_t>(before, after, positions, offset, first_word, sign_magnitude, block);
    case 4: return TakeCell<uint32_t>(before, after, positions, offset, first_word, sign_magnitude, block);
    default: return TakeCell<uint64_t>(before, after, positions, offset, first_word, sign_magnitude, block);
  }
}

// Room for the positions of one cell, and the kernel's slack.
std::vector<uint32_t> CellPositions() { return std::vector<uint32_t>(kCellUnits + 64); }

class Encoder {
 public:
  Encoder(const TensorSource& base, const TensorSource& target, const EncodeOptions& options, ByteSink& sink,
          Progress& progress)
      : base_(base), target_(target), options_(options), writer_(sink), progress_(progress) {}

  Result<EncodeReceipt> Run(std::vector<SideFileChange> side_files);

 private:
  Status MatchTensors();
  void MakeTasks();
  Status Survey();
  Result<EncodedTask> Encode(const Task& task) const;
  Status CloseBlock(const Task& task, uint64_t first_unit, uint64_t units, OpenBlock& block, EncodedTask& out) const;
  Status Take(const Task& task, EncodedTask encoded);
  std::vector<NamedTensor> Names() const;

  Result<ByteSpan> ReadUnits(const TensorSource& source, int64_t tensor, uint64_t unit, uint64_t first, uint64_t units,
                             Bytes& scratch) const {
    return source.Read(static_cast<size_t>(tensor), first * unit, units * unit, scratch);
  }

  const TensorSource& base_;
  const TensorSource& target_;
  const EncodeOptions& options_;
  PatchWriter writer_;
  Progress& progress_;

  bool structural_ = false;
  std::vector<int64_t> base_of_;  // target ordinal -> base ordinal or kNoBase
  std::vector<Task> tasks_;
  ValueTables tables_;
  std::set<DType> tables_used_;
  std::vector<bool> touched_;
  EncodeReceipt receipt_;
};

Status Encoder::MatchTensors() {
  const Layout &before = base_.layout(), &after = target_.layout();
  structural_ = before.tensors_digest() != after.tensors_digest();
  if (structural_ && !options_.allow_structural) {
    return Fail(Code::kInvalid, "the tensors differ, which a delta can't express: {}",
                DescribeTensorDifferences(before, after));
  }
  for (const LayoutTensor& tensor : after.tensors()) {
    const int64_t at = before.Find(tensor.name);
    const bool same = at != kNoBase && before.tensors()[static_cast<size_t>(at)].dtype == tensor.dtype &&
                      before.tensors()[static_cast<size_t>(at)].shape == tensor.shape;
    base_of_.push_back(same ? at : kNoBase);
  }
  return {};
}

void Encoder::MakeTasks() {
  constexpr uint64_t kTaskUnits = uint64_t{kMaxCellsPerBlock} * kCellUnits;
  uint64_t first_cell = 0;
  for (size_t i = 0; i < base_of_.size(); ++i) {
    const uint64_t units = target_.layout().tensors()[i].units();
    for (uint64_t at = 0; at < units; at += kTaskUnits) {
      tasks_.push_back({.tensor = i,
                        .base = base_of_[i],
                        .first_cell = first_cell + at / kCellUnits,
                        .first_unit = at,
                        .units = std::min(kTaskUnits, units - at)});
    }
    first_cell += CellsOf(units);
  }
}

// Counts value symbols in a sample of the cells, for each dtype. (Gaps need no tables: see gap_model.h.)
Status Encoder::Survey() {
  std::map<DType, std::array<uint64_t, kSymbols>> counts;
  uint64_t cells = 0;
  for (const Task& task : tasks_) cells += CellsOf(task.units);
  const uint64_t stride = std::max<uint64_t>(1, cells / kSurveyCells);
  std::vector<uint32_t> positions = CellPositions();
  OpenBlock block;
  Bytes before_scratch, after_scratch;
  uint64_t index = 0;
  for (const Task& task : tasks_) {
    const LayoutTensor& tensor = target_.layout().tensors()[task.tensor];
    const int unit = DTypeUnit(tensor.dtype);
    auto& count = counts[tensor.dtype];
    for (uint64_t at = 0; at < task.units; at += kCellUnits, ++index) {
      if (task.base == kNoBase || index % stride != 0) continue;
      const uint64_t units = std::min<uint64_t>(kCellUnits, task.units - at), first = task.first_unit + at;
      SKERRY_ASSIGN(const ByteSpan before, ReadUnits(base_, task.base, unit, first, units, before_scratch));
      SKERRY_ASSIGN(const ByteSpan after,
                    ReadUnits(target_, static_cast<int64_t>(task.tensor), unit, first, units, after_scratch));
      const size_t changed = FindChanges(before.data(), after.data(), units, unit, positions.data());
      block.Clear();
      TakeCell(before, after, std::span(positions).first(changed), 0, 0, tensor.dtype, block);
      for (const StepToken& token : block.tokens) ++count[token.symbol];
    }
  }
  for (auto& [dtype, count] : counts) {
    // A prior of a few neighbour steps, for dtypes that the sample missed.
    count[0] += 4;
    count[1] += 4;
    tables_.emplace(dtype, SymbolTable(SymbolTable::Normalise(count)));
  }
  return {};
}

Status Encoder::CloseBlock(const Task& task, uint64_t first_unit, uint64_t units, OpenBlock& block,
                           EncodedTask& out) const {
  BlockChanges& changes = block.changes;
  const LayoutTensor& tensor = target_.layout().tensors()[task.tensor];
  const auto unit = static_cast<uint64_t>(DTypeUnit(tensor.dtype));
  BlockEntry entry{.first_cell = task.first_cell + (first_unit - task.first_unit) / kCellUnits,
                   .cells = static_cast<uint32_t>(CellsOf(units)),
                   .changed = static_cast<uint32_t>(changes.count())};
  Bytes payload;
  if (task.base != kNoBase) {
    EncodeSparseFlat(units, changes.positions, block.tokens, tables_.at(tensor.dtype), payload);
  }
  if (task.base == kNoBase || payload.size() > units * unit / kDenseWorthTrying) {
    Bytes scratch, dense;
    SKERRY_ASSIGN(const ByteSpan after,
                  ReadUnits(target_, static_cast<int64_t>(task.tensor), unit, first_unit, units, scratch));
    EncodeDense(after, static_cast<int>(unit), dense);
    if (task.base == kNoBase || dense.size() < payload.size()) {
      entry.method = Method::kDense;
      changes.all = true;
      changes.positions.clear();
      changes.values.assign(after.begin(), after.end());
      payload = std::move(dense);
    }
  }
  entry.checksum = BlockChecksum(changes);
  out.changed += entry.changed;
  out.blocks.emplace_back(entry, std::move(payload));
  block.Clear();
  return {};
}

Result<EncodedTask> Encoder::Encode(const Task& task) const {
  const LayoutTensor& tensor = target_.layout().tensors()[task.tensor];
  const int unit = DTypeUnit(tensor.dtype);
  thread_local std::vector<uint32_t> positions = CellPositions();
  thread_local OpenBlock block;
  thread_local Bytes before_scratch, after_scratch;
  block.Clear();
  block.changes.unit = unit;

  EncodedTask out;
  Stopwatch watch;
  const uint64_t end = task.first_unit + task.units;
  uint64_t block_first = task.first_unit;
  for (uint64_t at = task.first_unit; at < end; at += kCellUnits) {
    const uint64_t units = std::min<uint64_t>(kCellUnits, end - at);
    const uint64_t first_word = at * static_cast<uint64_t>(unit) / 8;
    SKERRY_ASSIGN(const ByteSpan after,
                  ReadUnits(target_, static_cast<int64_t>(task.tensor), unit, at, units, after_scratch));
    if (task.base == kNoBase) {
      out.target += DigestWords(after, first_word);
      block.changes.values.resize(units * static_cast<uint64_t>(unit));
      out.compare_seconds += watch.Lap();
      SKERRY_TRY(CloseBlock(task, at, units, block, out));
      out.encode_seconds += watch.Lap();
      continue;
    }
    SKERRY_ASSIGN(const ByteSpan before, ReadUnits(base_, task.base, unit, at, units, before_scratch));
    RunningDigest old_digest;
    const size_t changed =
        FindChangesAndDigest(before.data(), after.data(), units, unit, first_word, positions.data(), old_digest);
    out.base += old_digest;
    out.target += old_digest;
    out.compare_seconds += watch.Lap();

    out.target += TakeCell(before, after, std::span(positions).first(changed), static_cast<uint32_t>(at - block_first),
                           first_word, tensor.dtype, block);
    const size_t count = block.tokens.size();
    if (count >= kChangesPerBlock || (at + units == end && count > 0)) {
      SKERRY_TRY(CloseBlock(task, block_first, at + units - block_first, block, out));
      block_first = at + units;
    }
    out.encode_seconds += watch.Lap();
  }
  progress_.Advance(task.units * static_cast<uint64_t>(unit));
  return out;
}

Status Encoder::Take(const Task& task, EncodedTask encoded) {
  for (const auto& [entry, payload] : encoded.blocks) {
    if (entry.method != Method::kDense) tables_used_.insert(target_.layout().tensors()[task.tensor].dtype);
    SKERRY_TRY(writer_.AddBlock(entry, payload));
    touched_[task.tensor] = true;
  }
  if (task.base != kNoBase) receipt_.base_digests[static_cast<size_t>(task.base)] += encoded.base;
  receipt_.target_digests[task.tensor] += encoded.target;
  receipt_.info.changed += encoded.changed;
  receipt_.compare_seconds += encoded.compare_seconds;
  receipt_.encode_seconds += encoded.encode_seconds;
  return {};
}

std::vector<NamedTensor> Encoder::Names() const {
  std::vector<NamedTensor> names;
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (!touched_[i]) continue;
    const LayoutTensor& tensor = target_.layout().tensors()[i];
    names.push_back({.ordinal = i, .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  return names;
}

Result<EncodeReceipt> Encoder::Run(std::vector<SideFileChange> side_files) {
  SKERRY_TRY(MatchTensors());
  MakeTasks();
  SKERRY_TRY(Survey());
  const Layout &before = base_.layout(), &after = target_.layout();
  receipt_.base_digests.resize(before.tensors().size());
  receipt_.target_digests.resize(after.tensors().size());
  touched_.resize(after.tensors().size());

  progress_.Begin("compare", after.total_bytes());
  SKERRY_TRY(writer_.Begin(structural_));
  SKERRY_TRY(ParallelOrdered<EncodedTask>(
      tasks_.size(), options_.threads, [&](size_t i) { return Encode(tasks_[i]); },
      [&](size_t i, EncodedTask encoded) { return Take(tasks_[i], std::move(encoded)); }));
  if (structural_) {
    // Tensors that the target no longer has were not read above.
    SKERRY_ASSIGN(receipt_.base_digests, DigestTensors(base_, options_.threads, progress_));
  }
  SKERRY_TRY(base_.Check());
  SKERRY_TRY(target_.Check());

  PatchHead head;
  PatchInfo& info = receipt_.info;
  info.structural = structural_;
  info.units = after.total_units();
  info.base_layout = before.digest();
  info.target_layout = after.digest();
  info.base_tensors = before.tensors_digest();
  info.base_model = ModelDigest(before.tensors_digest(), receipt_.base_digests);
  info.target_model = ModelDigest(after.tensors_digest(), receipt_.target_digests);
  info.blocks = writer_.blocks().size();
  head.info = info;
  for (const auto& [dtype, table] : tables_) {
    if (tables_used_.count(dtype) != 0) head.tables.emplace(dtype, table);
  }
  if (options_.with_names) head.names = Names();
  if (before.digest() != after.digest()) head.layout = after.Serialize();
  head.side_files = std::move(side_files);
  SKERRY_TRY(writer_.Finish(std::move(head)));

  receipt_.tensors_changed = static_cast<uint64_t>(std::count(touched_.begin(), touched_.end(), true));
  receipt_.patch_bytes = writer_.bytes_written();
  return std::move(receipt_);
}

}  // namespace

Result<EncodeReceipt> EncodePatch(const TensorSource& base, const TensorSource& target,
                                  std::vector<SideFileChange> side_files, const EncodeOptions& options, ByteSink& sink,
                                  Progress& progress) {
  return Encoder(base, target, options, sink, progress).Run(std::move(side_files));
}

}  // namespace skerry
