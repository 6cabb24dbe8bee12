#include "skerry/patch/encoder.h"

#include <algorithm>
#include <set>

#include "skerry/base/clock.h"
#include "skerry/base/parallel.h"
#include "skerry/diff/find_changes.h"
#include "skerry/patch/block_encoder.h"
#include "skerry/patch/cell_order.h"
#include "skerry/patch/survey.h"

namespace skerry {
namespace {

constexpr int64_t kNoBase = -1;

// The survey looks at every k-th cell of a dtype, so that it reads at most about this many.
constexpr uint64_t kSurveyCells = 256;

// Units of one tensor; the ordinal in the base is kNoBase where the base has not got it.
struct TaskRun {
  size_t tensor = 0;  // ordinal in the target
  int64_t base = kNoBase;
  uint64_t first_unit = 0;
  uint64_t units = 0;
};

// The unit of parallel work: up to kMaxCellsPerBlock cells of tensors of one dtype, which all have a base or all not.
struct Task {
  DType dtype = DType::kU8;
  bool has_base = false;
  uint64_t first_cell = 0;
  uint64_t cells = 0;
  std::vector<TaskRun> runs;
};

struct EncodedTask {
  struct Tensor {
    RunningDigest base, target;
    uint64_t changed = 0;
  };

  std::vector<EncodedBlock> blocks;
  std::vector<Tensor> tensors;  // one for each run
  double compare_seconds = 0, encode_seconds = 0;
};

// Room for the positions of one cell, and the kernel's slack.
std::vector<uint32_t> CellPositions() { return std::vector<uint32_t>(kCellUnits + 64); }

class Encoder {
 public:
  Encoder(const TensorSource& base, const TensorSource& target, const EncodeOptions& options, const KnownChanges* known,
          ByteSink& sink, Progress& progress)
      : base_(base), target_(target), options_(options), known_(known), writer_(sink), progress_(progress) {}

  Result<EncodeReceipt> Run(std::vector<SideFileChange> side_files);

 private:
  Status MatchTensors();
  void MakeTasks();
  Status TakeSurvey();
  Result<EncodedTask> Encode(const Task& task) const;
  Result<EncodedTask> EncodeWhole(const Task& task) const;
  Result<Bytes> ReadAfter(const Task& task, uint64_t first_unit, uint64_t units) const;
  Status Take(const Task& task, EncodedTask encoded);
  std::vector<NamedTensor> Names() const;

  bool MayDiffer(uint64_t cell) const { return known_ == nullptr || known_->touched_cells[cell]; }

  Result<ByteSpan> ReadUnits(const TensorSource& source, int64_t tensor, uint64_t unit, uint64_t first, uint64_t units,
                             Bytes& scratch) const {
    return source.Read(static_cast<size_t>(tensor), first * unit, units * unit, scratch);
  }

  const TensorSource& base_;
  const TensorSource& target_;
  const EncodeOptions& options_;
  const KnownChanges* const known_;  // or null
  PatchWriter writer_;
  Progress& progress_;

  bool structural_ = false;
  std::vector<int64_t> base_of_;  // target ordinal -> base ordinal or kNoBase
  std::vector<Task> tasks_;
  ValueTables values_;
  MagnitudeModels magnitudes_;
  std::set<std::pair<Method, DType>> used_;
  std::vector<uint64_t> changed_in_;  // units, by ordinal in the target
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
  const CellOrder order(target_.layout());
  for (size_t i = 0; i < order.tensors().size(); ++i) {
    const size_t ordinal = order.tensors()[i];
    const LayoutTensor& tensor = target_.layout().tensors()[ordinal];
    const bool has_base = base_of_[ordinal] != kNoBase;
    for (uint64_t unit = 0; unit < tensor.units();) {
      if (tasks_.empty() || tasks_.back().cells == kMaxCellsPerBlock || tasks_.back().dtype != tensor.dtype ||
          tasks_.back().has_base != has_base) {
        tasks_.push_back(
            {.dtype = tensor.dtype, .has_base = has_base, .first_cell = order.first_cell(i) + unit / kCellUnits});
      }
      Task& task = tasks_.back();
      const uint64_t units = std::min((kMaxCellsPerBlock - task.cells) * kCellUnits, tensor.units() - unit);
      task.runs.push_back({.tensor = ordinal, .base = base_of_[ordinal], .first_unit = unit, .units = units});
      task.cells += CellsOf(units);
      unit += units;
    }
  }
}

// Counts steps and magnitudes in a sample of the cells. (Gaps need no tables: see gap_model.h.)
Status Encoder::TakeSurvey() {
  std::map<DType, uint64_t> cells, index;
  for (const Task& task : tasks_) {
    if (!task.has_base) continue;
    uint64_t& count = cells[task.dtype];
    for (uint64_t cell = task.first_cell; cell < task.first_cell + task.cells; ++cell) count += MayDiffer(cell);
  }
  const auto stride = [&](DType dtype) { return std::max<uint64_t>(1, cells.at(dtype) / kSurveyCells); };
  Survey survey(options_.level == Level::kCompact);
  for (const auto& [dtype, count] : cells) survey.Expect(dtype, stride(dtype));
  std::vector<uint32_t> positions = CellPositions();
  Bytes before_scratch, after_scratch;
  for (const Task& task : tasks_) {
    const int unit = DTypeUnit(task.dtype);
    uint64_t cell = task.first_cell;
    for (const TaskRun& run : task.runs) {
      for (uint64_t at = 0; task.has_base && at < run.units; at += kCellUnits) {
        if (!MayDiffer(cell++)) continue;
        if (index[task.dtype]++ % stride(task.dtype) != 0) continue;
        const uint64_t units = std::min<uint64_t>(kCellUnits, run.units - at), first = run.first_unit + at;
        SKERRY_ASSIGN(const ByteSpan before, ReadUnits(base_, run.base, unit, first, units, before_scratch));
        SKERRY_ASSIGN(const ByteSpan after,
                      ReadUnits(target_, static_cast<int64_t>(run.tensor), unit, first, units, after_scratch));
        const size_t changed = FindChanges(before.data(), after.data(), units, unit, positions.data());
        survey.AddCell(task.dtype, before, after, std::span(positions).first(changed));
      }
    }
  }
  values_ = survey.Values();
  magnitudes_ = survey.Magnitudes();
  return {};
}

// The new bytes of some units of a task, which are counted over its runs.
Result<Bytes> Encoder::ReadAfter(const Task& task, uint64_t first_unit, uint64_t units) const {
  const int unit = DTypeUnit(task.dtype);
  Bytes all, scratch;
  uint64_t run_first = 0;
  for (const TaskRun& run : task.runs) {
    const uint64_t from = std::max(first_unit, run_first), to = std::min(first_unit + units, run_first + run.units);
    if (from < to) {
      SKERRY_ASSIGN(const ByteSpan part, ReadUnits(target_, static_cast<int64_t>(run.tensor), unit,
                                                   run.first_unit + from - run_first, to - from, scratch));
      all.insert(all.end(), part.begin(), part.end());
    }
    run_first += run.units;
  }
  return all;
}

// Tensors that the base has not: a block a cell, so that a damaged one is small.
Result<EncodedTask> Encoder::EncodeWhole(const Task& task) const {
  EncodedTask out;
  uint64_t first_cell = task.first_cell, first_unit = 0;
  for (const TaskRun& run : task.runs) {
    EncodedTask::Tensor& tensor = out.tensors.emplace_back();
    for (uint64_t at = 0; at < run.units; at += kCellUnits) {
      Stopwatch watch;
      const uint64_t units = std::min<uint64_t>(kCellUnits, run.units - at);
      SKERRY_ASSIGN(Bytes after, ReadAfter(task, first_unit + at, units));
      tensor.target += DigestWords(after, (run.first_unit + at) * static_cast<uint64_t>(DTypeUnit(task.dtype)) / 8);
      tensor.changed += units;
      out.compare_seconds += watch.Lap();
      out.blocks.push_back(BlockEncoder::Whole(task.dtype, std::move(after)));
      out.blocks.back().entry.first_cell = first_cell++;
      out.blocks.back().entry.cells = 1;
      out.encode_seconds += watch.Lap();
    }
    first_unit += run.units;
  }
  return out;
}

Result<EncodedTask> Encoder::Encode(const Task& task) const {
  if (!task.has_base) return EncodeWhole(task);
  const int unit = DTypeUnit(task.dtype);
  thread_local std::vector<uint32_t> positions = CellPositions();
  thread_local BlockEncoder block;
  thread_local Bytes before_scratch, after_scratch;
  const auto magnitudes = magnitudes_.find(task.dtype);
  block.Begin(task.dtype, &values_.at(task.dtype), magnitudes != magnitudes_.end() ? &magnitudes->second : nullptr);

  EncodedTask out;
  Stopwatch watch;
  uint64_t cell = 0, block_cell = 0, units_done = 0;
  for (const TaskRun& run : task.runs) {
    EncodedTask::Tensor& tensor = out.tensors.emplace_back();
    for (uint64_t at = 0; at < run.units; at += kCellUnits) {
      const uint64_t units = std::min<uint64_t>(kCellUnits, run.units - at), first = run.first_unit + at;
      const uint64_t first_word = first * static_cast<uint64_t>(unit) / 8;
      size_t changed = 0;
      ByteSpan before, after;
      if (MayDiffer(task.first_cell + cell)) {
        SKERRY_ASSIGN(after, ReadUnits(target_, static_cast<int64_t>(run.tensor), unit, first, units, after_scratch));
        SKERRY_ASSIGN(before, ReadUnits(base_, run.base, unit, first, units, before_scratch));
        if (known_ != nullptr) {
          changed = FindChanges(before.data(), after.data(), units, unit, positions.data());
        } else {
          RunningDigest old_digest;
          changed =
              FindChangesAndDigest(before.data(), after.data(), units, unit, first_word, positions.data(), old_digest);
          tensor.base += old_digest;
          tensor.target += old_digest;
        }
      } else if (block.changed() > 0) {
        SKERRY_ASSIGN(before, ReadUnits(base_, run.base, unit, first, units, before_scratch));
        after = before;
      }
      out.compare_seconds += watch.Lap();

      ++cell;
      units_done += units;
      // A block begins with a cell that changed.
      if (changed + block.changed() == 0) {
        block_cell = cell;
        continue;
      }
      tensor.target += block.AddCell(before, after, std::span(positions).first(changed), first_word);
      tensor.changed += changed;
      if (block.changed() >= kChangesPerBlock || cell == task.cells) {
        const uint64_t block_units = block.units();
        SKERRY_ASSIGN(EncodedBlock closed,
                      block.Close([&] { return ReadAfter(task, units_done - block_units, block_units); }));
        closed.entry.first_cell = task.first_cell + block_cell;
        closed.entry.cells = static_cast<uint32_t>(cell - block_cell);
        out.blocks.push_back(std::move(closed));
        block_cell = cell;
      }
      out.encode_seconds += watch.Lap();
    }
  }
  progress_.Advance(units_done * static_cast<uint64_t>(unit));
  return out;
}

Status Encoder::Take(const Task& task, EncodedTask encoded) {
  for (const auto& [entry, payload] : encoded.blocks) {
    used_.emplace(entry.method, task.dtype);
    SKERRY_TRY(writer_.AddBlock(entry, payload));
  }
  for (size_t i = 0; i < task.runs.size(); ++i) {
    const TaskRun& run = task.runs[i];
    const EncodedTask::Tensor& tensor = encoded.tensors[i];
    if (run.base != kNoBase) receipt_.base_digests[static_cast<size_t>(run.base)] += tensor.base;
    receipt_.target_digests[run.tensor] += tensor.target;
    receipt_.info.changed += tensor.changed;
    changed_in_[run.tensor] += tensor.changed;
  }
  receipt_.compare_seconds += encoded.compare_seconds;
  receipt_.encode_seconds += encoded.encode_seconds;
  return {};
}

std::vector<NamedTensor> Encoder::Names() const {
  std::vector<NamedTensor> names;
  for (size_t i = 0; i < changed_in_.size(); ++i) {
    if (changed_in_[i] == 0) continue;
    const LayoutTensor& tensor = target_.layout().tensors()[i];
    names.push_back(
        {.ordinal = i, .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .changed = changed_in_[i]});
  }
  return names;
}

Result<EncodeReceipt> Encoder::Run(std::vector<SideFileChange> side_files) {
  SKERRY_TRY(MatchTensors());
  MakeTasks();
  SKERRY_TRY(TakeSurvey());
  const Layout &before = base_.layout(), &after = target_.layout();
  receipt_.base_digests.resize(before.tensors().size());
  receipt_.target_digests.resize(after.tensors().size());
  changed_in_.resize(after.tensors().size());

  progress_.Begin("compare", after.total_bytes());
  SKERRY_TRY(writer_.Begin(structural_));
  SKERRY_TRY(ParallelOrdered<EncodedTask>(
      tasks_.size(), options_.threads, [&](size_t i) { return Encode(tasks_[i]); },
      [&](size_t i, EncodedTask encoded) { return Take(tasks_[i], std::move(encoded)); }));
  if (structural_) {
    // Tensors that the target no longer has were not read above.
    SKERRY_ASSIGN(receipt_.base_digests, DigestTensors(base_, options_.threads, progress_));
  }
  if (known_ != nullptr) {
    receipt_.base_digests = known_->base_digests;
    receipt_.target_digests = known_->target_digests;
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
  for (const auto& [dtype, table] : values_) {
    if (used_.count({Method::kSparseFlat, dtype}) != 0) head.tables.emplace(dtype, table);
  }
  for (const auto& [dtype, model] : magnitudes_) {
    if (used_.count({Method::kSparseMagnitude, dtype}) != 0) head.magnitudes.emplace(dtype, model);
  }
  if (options_.with_names) head.names = Names();
  if (before.digest() != after.digest()) head.layout = after.Serialize();
  receipt_.side_files_changed = side_files.size();
  head.side_files = std::move(side_files);
  SKERRY_TRY(writer_.Finish(std::move(head)));

  receipt_.tensors_changed = static_cast<uint64_t>(
      std::count_if(changed_in_.begin(), changed_in_.end(), [](uint64_t changed) { return changed > 0; }));
  receipt_.tensors = after.tensors().size();
  receipt_.target_bytes = after.total_bytes();
  receipt_.patch_bytes = writer_.bytes_written();
  return std::move(receipt_);
}

}  // namespace

std::optional<Level> LevelFromName(std::string_view name) {
  if (name == "fast") return Level::kFast;
  if (name == "compact") return Level::kCompact;
  return std::nullopt;
}

Result<EncodeReceipt> EncodePatch(const TensorSource& base, const TensorSource& target,
                                  std::vector<SideFileChange> side_files, const EncodeOptions& options, ByteSink& sink,
                                  Progress& progress, const KnownChanges* known) {
  return Encoder(base, target, options, known, sink, progress).Run(std::move(side_files));
}

}  // namespace skerry
