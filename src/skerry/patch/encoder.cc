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
constexpr uint64_t kSurveyCells = 128;

// Cells of a task whose tensors have no base: few, so that what they are packed into is written while it is in the
// cache.
constexpr uint64_t kWholeCellsPerTask = 8;

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

// A cell of a task, and its bytes where it was read.
struct Cell {
  size_t run = 0;  // of the task
  size_t target = 0;
  int64_t base = kNoBase;
  uint64_t first_unit = 0, units = 0;
  uint64_t first_word = 0;
  ByteSpan before, after;
};

std::vector<Cell> CellsOfTask(const Task& task) {
  std::vector<Cell> cells;
  cells.reserve(task.cells);
  const auto unit = static_cast<uint64_t>(DTypeUnit(task.dtype));
  for (size_t r = 0; r < task.runs.size(); ++r) {
    const TaskRun& run = task.runs[r];
    for (uint64_t at = 0; at < run.units; at += kCellUnits) {
      cells.push_back({.run = r,
                       .target = run.tensor,
                       .base = run.base,
                       .first_unit = run.first_unit + at,
                       .units = std::min<uint64_t>(kCellUnits, run.units - at),
                       .first_word = (run.first_unit + at) * unit / 8});
    }
  }
  return cells;
}

// What reading a cell needs; bytes go there where the source is not mapped.
struct CellBuffers {
  Bytes before, after, between;
  std::vector<uint32_t> positions = std::vector<uint32_t>(kCellUnits + 64);  // and the kernel's slack
};

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
  Result<Bytes> ReadAfter(DType dtype, std::span<const Cell> cells) const;
  Result<size_t> Compare(DType dtype, Cell& cell, CellBuffers& buffers, EncodedTask::Tensor& tensor) const;
  Status Take(const Task& task, EncodedTask encoded);
  void Report(const Task& task) const;
  std::vector<NamedTensor> Names() const;

  bool MayDiffer(uint64_t cell) const { return known_ == nullptr || known_->touched_cells[cell]; }

  static Result<ByteSpan> ReadCell(const TensorSource& source, uint64_t ordinal, DType dtype, const Cell& cell,
                                   Bytes& scratch) {
    const auto unit = static_cast<uint64_t>(DTypeUnit(dtype));
    return source.Read(ordinal, cell.first_unit * unit, cell.units * unit, scratch);
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
    const uint64_t most_cells = has_base ? kMaxCellsPerBlock : kWholeCellsPerTask;
    for (uint64_t unit = 0; unit < tensor.units();) {
      if (tasks_.empty() || tasks_.back().cells == most_cells || tasks_.back().dtype != tensor.dtype ||
          tasks_.back().has_base != has_base) {
        tasks_.push_back(
            {.dtype = tensor.dtype, .has_base = has_base, .first_cell = order.first_cell(i) + unit / kCellUnits});
      }
      Task& task = tasks_.back();
      const uint64_t units = std::min((most_cells - task.cells) * kCellUnits, tensor.units() - unit);
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
  CellBuffers buffers;
  for (const Task& task : tasks_) {
    if (!task.has_base) continue;
    std::vector<Cell> task_cells = CellsOfTask(task);
    for (size_t i = 0; i < task_cells.size(); ++i) {
      if (!MayDiffer(task.first_cell + i) || index[task.dtype]++ % stride(task.dtype) != 0) continue;
      Cell& cell = task_cells[i];
      SKERRY_ASSIGN(cell.before, ReadCell(base_, static_cast<size_t>(cell.base), task.dtype, cell, buffers.before));
      SKERRY_ASSIGN(cell.after, ReadCell(target_, cell.target, task.dtype, cell, buffers.after));
      const size_t changed = FindChanges(cell.before.data(), cell.after.data(), cell.units, DTypeUnit(task.dtype),
                                         buffers.positions.data());
      survey.AddCell(task.dtype, cell.before, cell.after, std::span(buffers.positions).first(changed));
    }
  }
  values_ = survey.Values();
  magnitudes_ = survey.Magnitudes();
  return {};
}

// The new bytes of cells, one after another.
Result<Bytes> Encoder::ReadAfter(DType dtype, std::span<const Cell> cells) const {
  Bytes all, scratch;
  for (const Cell& cell : cells) {
    SKERRY_ASSIGN(const ByteSpan part, ReadCell(target_, cell.target, dtype, cell, scratch));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Tensors that the base has not: a block a cell, so that a damaged one is small.
Result<EncodedTask> Encoder::EncodeWhole(const Task& task) const {
  EncodedTask out;
  out.tensors.resize(task.runs.size());
  uint64_t number = task.first_cell;
  Bytes scratch;
  for (const Cell& cell : CellsOfTask(task)) {
    Stopwatch watch;
    SKERRY_ASSIGN(const ByteSpan after, ReadCell(target_, cell.target, task.dtype, cell, scratch));
    out.tensors[cell.run].target += DigestWords(after, cell.first_word);
    out.tensors[cell.run].changed += cell.units;
    out.compare_seconds += watch.Lap();
    out.blocks.push_back(BlockEncoder::Whole(task.dtype, after));
    out.blocks.back().entry.first_cell = number++;
    out.blocks.back().entry.cells = 1;
    out.encode_seconds += watch.Lap();
  }
  Report(task);
  return out;
}

void Encoder::Report(const Task& task) const {
  for (const TaskRun& run : task.runs) progress_.Advance(run.units * static_cast<uint64_t>(DTypeUnit(task.dtype)));
}

// How many units of a cell changed; `cell.before` and `cell.after` are read, and digested unless that is known.
Result<size_t> Encoder::Compare(DType dtype, Cell& cell, CellBuffers& buffers, EncodedTask::Tensor& tensor) const {
  SKERRY_ASSIGN(cell.before, ReadCell(base_, static_cast<size_t>(cell.base), dtype, cell, buffers.before));
  SKERRY_ASSIGN(cell.after, ReadCell(target_, cell.target, dtype, cell, buffers.after));
  const int unit = DTypeUnit(dtype);
  if (known_ != nullptr) {
    return FindChanges(cell.before.data(), cell.after.data(), cell.units, unit, buffers.positions.data());
  }
  RunningDigest digest;
  const size_t changed = FindChangesAndDigest(cell.before.data(), cell.after.data(), cell.units, unit, cell.first_word,
                                              buffers.positions.data(), digest);
  tensor.base += digest;
  tensor.target += digest;
  return changed;
}

// Blocks begin and end with a cell that changed.
Result<EncodedTask> Encoder::Encode(const Task& task) const {
  if (!task.has_base) return EncodeWhole(task);
  thread_local CellBuffers buffers;
  thread_local BlockEncoder block;
  const auto magnitudes = magnitudes_.find(task.dtype);
  block.Begin(task.dtype, &values_.at(task.dtype), magnitudes != magnitudes_.end() ? &magnitudes->second : nullptr);

  EncodedTask out;
  out.tensors.resize(task.runs.size());
  std::vector<Cell> cells = CellsOfTask(task);
  size_t first = 0, next = 0;  // cells of the open block: first to before next
  Stopwatch watch;
  const auto close = [&]() -> Status {
    const auto block_cells = std::span<const Cell>(cells).subspan(first, next - first);
    SKERRY_ASSIGN(EncodedBlock closed, block.Close([&] { return ReadAfter(task.dtype, block_cells); }));
    closed.entry.first_cell = task.first_cell + first;
    closed.entry.cells = static_cast<uint32_t>(next - first);
    out.blocks.push_back(std::move(closed));
    return {};
  };
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!MayDiffer(task.first_cell + i)) continue;
    Cell& cell = cells[i];
    EncodedTask::Tensor& tensor = out.tensors[cell.run];
    SKERRY_ASSIGN(const size_t changed, Compare(task.dtype, cell, buffers, tensor));
    out.compare_seconds += watch.Lap();
    if (changed == 0) continue;

    if (block.changed() == 0) first = next = i;
    for (; next < i; ++next) {
      SKERRY_ASSIGN(const ByteSpan same,
                    ReadCell(base_, static_cast<size_t>(cells[next].base), task.dtype, cells[next], buffers.between));
      block.AddCell(same, same, {}, cells[next].first_word);
    }
    next = i + 1;
    tensor.changed += changed;
    tensor.target +=
        block.AddCell(cell.before, cell.after, std::span(buffers.positions).first(changed), cell.first_word);
    if (block.changed() >= kChangesPerBlock) SKERRY_TRY(close());
    out.encode_seconds += watch.Lap();
  }
  if (block.changed() > 0) SKERRY_TRY(close());
  out.encode_seconds += watch.Lap();
  Report(task);
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
  SKERRY_TRY(writer_.Begin((structural_ ? uint64_t{kFeatureStructural} : 0) |
                           (options_.boxes.empty() ? 0 : uint64_t{kFeatureBoxes}) |
                           (magnitudes_.count(DType::kU8) == 0 ? 0 : uint64_t{kFeatureCodes})));
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
    // U8's is announced in the header already, before any block was written.
    if (dtype == DType::kU8 || used_.count({Method::kSparseMagnitude, dtype}) != 0) {
      head.magnitudes.emplace(dtype, model);
    }
  }
  if (options_.with_names) head.names = Names();
  if (options_.with_layout && before.digest() != after.digest()) head.layout = after.Serialize();
  receipt_.side_files_changed = side_files.size();
  head.side_files = std::move(side_files);
  head.boxes.assign(options_.boxes.begin(), options_.boxes.end());
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
