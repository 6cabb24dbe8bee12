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
  size_t tensor = 0;         // ordinal in the target
  int64_t base = kNoBase;    // ordinal in the base
  uint64_t first_cell = 0;   // over all tensors of the target
  uint64_t first_unit = 0;   // within the tensor
  uint64_t units = 0;
};

struct EncodedTask {
  std::vector<std::pair<BlockEntry, Bytes>> blocks;
  RunningDigest base, target;
  uint64_t changed = 0;
  double compare_seconds = 0, encode_seconds = 0;
};

template <typename T>
void AppendTokens(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, bool sign_magnitude,
                  std::vector<StepToken>& tokens, Bytes& values) {
  const size_t first_value = values.size();
  values.resize(first_value + positions.size() * sizeof(T));
  std::byte* value = values.data() + first_value;
  for (const uint32_t position : positions) {
    const T old_bits = LoadLe<T>(before.data() + size_t{position} * sizeof(T));
    const T new_bits = LoadLe<T>(after.data() + size_t{position} * sizeof(T));
    tokens.push_back(TokenOf(old_bits, new_bits, sign_magnitude));
    StoreLe(value, new_bits);
    value += sizeof(T);
  }
}

// Compares one cell: appends positions (relative to the cell), tokens and new values of what changed.
struct CellChanges {
  std::vector<uint32_t> positions = std::vector<uint32_t>(kCellUnits + 64);
  size_t count = 0;

  std::span<const uint32_t> found() const { return {positions.data(), count}; }
  void Find(ByteSpan before, ByteSpan after, int unit) {
    count = FindChanges(before.data(), after.data(), after.size() / static_cast<size_t>(unit), unit, positions.data());
  }
  void Tokens(ByteSpan before, ByteSpan after, DType dtype, std::vector<StepToken>& tokens, Bytes& values) const {
    const bool sign_magnitude = DTypeIsSignMagnitude(dtype);
    switch (DTypeUnit(dtype)) {
      case 1: return AppendTokens<uint8_t>(before, after, found(), sign_magnitude, tokens, values);
      case 2: return AppendTokens<uint16_t>(before, after, found(), sign_magnitude, tokens, values);
      case 4: return AppendTokens<uint32_t>(before, after, found(), sign_magnitude, tokens, values);
      default: return AppendTokens<uint64_t>(before, after, found(), sign_magnitude, tokens, values);
    }
  }
};

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
  Status CloseBlock(const Task& task, uint64_t first_unit, uint64_t units, BlockChanges& changes,
                    std::vector<StepToken>& tokens, EncodedTask& out) const;
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
  CellChanges cell;
  std::vector<StepToken> tokens;
  Bytes values, before_scratch, after_scratch;
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
      cell.Find(before, after, unit);
      tokens.clear();
      values.clear();
      cell.Tokens(before, after, tensor.dtype, tokens, values);
      for (const StepToken& token : tokens) ++count[token.symbol];
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

Status Encoder::CloseBlock(const Task& task, uint64_t first_unit, uint64_t units, BlockChanges& changes,
                           std::vector<StepToken>& tokens, EncodedTask& out) const {
  const LayoutTensor& tensor = target_.layout().tensors()[task.tensor];
  const auto unit = static_cast<uint64_t>(DTypeUnit(tensor.dtype));
  BlockEntry entry{.first_cell = task.first_cell + (first_unit - task.first_unit) / kCellUnits,
                   .cells = static_cast<uint32_t>(CellsOf(units)),
                   .changed = static_cast<uint32_t>(changes.count())};
  Bytes payload;
  if (task.base != kNoBase) {
    EncodeSparseFlat(units, changes.positions, tokens, tables_.at(tensor.dtype), payload);
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
  changes.all = false;
  changes.positions.clear();
  changes.values.clear();
  tokens.clear();
  return {};
}

Result<EncodedTask> Encoder::Encode(const Task& task) const {
  const LayoutTensor& tensor = target_.layout().tensors()[task.tensor];
  const int unit = DTypeUnit(tensor.dtype);
  thread_local CellChanges cell;
  thread_local std::vector<StepToken> tokens;
  thread_local BlockChanges block;
  thread_local Bytes before_scratch, after_scratch;
  tokens.clear();
  block = {.unit = unit};

  EncodedTask out;
  Stopwatch watch;
  uint64_t block_first = task.first_unit;
  for (uint64_t at = task.first_unit; at < task.first_unit + task.units; at += kCellUnits) {
    const uint64_t units = std::min<uint64_t>(kCellUnits, task.first_unit + task.units - at);
    const uint64_t first_word = at * static_cast<uint64_t>(unit) / 8;
    SKERRY_ASSIGN(const ByteSpan after,
                  ReadUnits(target_, static_cast<int64_t>(task.tensor), unit, at, units, after_scratch));
    watch.Lap();
    if (task.base == kNoBase) {
      out.target += DigestWords(after, first_word);
      block.values.resize(units * static_cast<uint64_t>(unit));
      out.compare_seconds += watch.Lap();
      SKERRY_TRY(CloseBlock(task, at, units, block, tokens, out));
      out.encode_seconds += watch.Lap();
      continue;
    }
    SKERRY_ASSIGN(const ByteSpan before, ReadUnits(base_, task.base, unit, at, units, before_scratch));
    cell.Find(before, after, unit);
    const RunningDigest old_digest = DigestWords(before, first_word);
    out.compare_seconds += watch.Lap();

    const auto cell_offset = static_cast<uint32_t>(at - block_first);
    const size_t first_value = block.values.size();
    cell.Tokens(before, after, tensor.dtype, tokens, block.values);
    for (const uint32_t position : cell.found()) block.positions.push_back(cell_offset + position);
    // The digest follows the changes of this cell only.
    thread_local BlockChanges moved;
    moved.unit = unit;
    moved.positions.assign(cell.found().begin(), cell.found().end());
    moved.values.assign(block.values.begin() + static_cast<ptrdiff_t>(first_value), block.values.end());
    out.base += old_digest;
    out.target += old_digest;
    out.target += DigestDelta(moved, before, first_word);
    const uint64_t block_units = at + units - block_first;
    const bool last = at + units == task.first_unit + task.units;
    if (block.count() >= kChangesPerBlock || (last && block.count() > 0)) {
      SKERRY_TRY(CloseBlock(task, block_first, block_units, block, tokens, out));
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
