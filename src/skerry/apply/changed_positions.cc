#include "skerry/apply/changed_positions.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "skerry/apply/journal.h"
#include "skerry/apply/merged_steps.h"
#include "skerry/base/temporary.h"

namespace skerry {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
// Of a tensor's entry in the header, without its name: dtype, shape, two offsets of up to 20 digits, punctuation.
constexpr size_t kEntryBytes = 128;
constexpr uint64_t kMaxIndex32 = 1ull << 32;  // so many elements have indices of 32 bits

uint64_t ElementsOf(const LayoutTensor& tensor) {
  uint64_t elements = 1;
  for (const uint64_t axis : tensor.shape) elements *= axis;
  return elements;
}

bool IsWide(const LayoutTensor& tensor) { return ElementsOf(tensor) > kMaxIndex32; }

// Writes the file: room for the header first, which is known at the end only; tensors of 64-bit indices before those of
// 32-bit ones, so that all data is aligned.
class PositionsFile {
 public:
  static Result<PositionsFile> Begin(const Path& path, uint64_t header_bytes) {
    PositionsFile file;
    SKERRY_ASSIGN(file.file_, File::Create(path));
    file.header_bytes_ = (header_bytes + 7) / 8 * 8;
    return file;
  }

  void BeginTensor(const LayoutTensor& tensor) {
    tensor_ = &tensor;
    wide_ = IsWide(tensor);
    begin_ = data_bytes();
    next_ = 0;
  }

  // The unit that changed, of the tensor begun last; rising.
  Status Add(uint64_t unit) {
    const auto bits = static_cast<uint64_t>(DTypeBits(tensor_->dtype));
    if (bits >= 8) return AddElement(unit);
    // A byte that holds parts of several elements.
    const uint64_t last = std::min((8 * unit + 7) / bits, ElementsOf(*tensor_) - 1);
    for (uint64_t element = std::max(next_, 8 * unit / bits); element <= last; ++element) {
      SKERRY_TRY(AddElement(element));
    }
    return {};
  }

  void EndTensor() {
    const uint64_t bytes = data_bytes() - begin_, count = bytes / (wide_ ? 8 : 4);
    header_[tensor_->name] = {
        {"data_offsets", {begin_, data_bytes()}}, {"dtype", wide_ ? "U64" : "U32"}, {"shape", {count}}};
    ++counts_.tensors;
    counts_.elements += count;
  }

  Result<ChangedPositions> Finish() {
    SKERRY_TRY(Flush());
    std::string header = header_.dump();
    if (header.size() > header_bytes_) {
      return Fail(Code::kInvalid, "a header of {} bytes, more than the {} made room for", header.size(), header_bytes_);
    }
    header.resize(header_bytes_, ' ');
    Bytes start(8);
    StoreLe<uint64_t>(start.data(), header_bytes_);
    SKERRY_TRY(file_.WriteAt(start, 0));
    SKERRY_TRY(file_.WriteAt(AsBytes(header), 8));
    counts_.bytes = 8 + header_bytes_ + flushed_;
    return counts_;
  }

  uint64_t data_bytes() const { return flushed_ + buffer_.size(); }

 private:
  Status AddElement(uint64_t element) {
    ByteWriter writer(buffer_);
    if (wide_) {
      writer.Int<uint64_t>(element);
    } else {
      writer.Int<uint32_t>(static_cast<uint32_t>(element));
    }
    next_ = element + 1;
    return buffer_.size() >= kBufferBytes ? Flush() : Status();
  }

  Status Flush() {
    SKERRY_TRY(file_.WriteAt(buffer_, 8 + header_bytes_ + flushed_));
    flushed_ += buffer_.size();
    buffer_.clear();
    return {};
  }

  File file_;
  uint64_t header_bytes_ = 0;
  Bytes buffer_;
  uint64_t flushed_ = 0;  // bytes of data in the file
  nlohmann::json header_ = nlohmann::json::object();
  ChangedPositions counts_;
  // The tensor at hand.
  const LayoutTensor* tensor_ = nullptr;
  bool wide_ = false;
  uint64_t begin_ = 0, next_ = 0;
};

uint64_t HeaderBytes(const MergedSteps& steps, const Layout& layout) {
  uint64_t bytes = 2;
  uint64_t last = layout.tensors().size();
  for (const MergedSteps::Window& window : steps.windows()) {
    if (window.tensor == last) continue;
    last = window.tensor;
    bytes += nlohmann::json(layout.tensors()[last].name).dump().size() + kEntryBytes;
  }
  return bytes;
}

// Whether all went into the file; not where a limit was met.
Result<bool> AddTensors(const MergedSteps& steps, const Layout& layout, bool wide, uint64_t most_data_bytes,
                        PositionsFile& file) {
  const auto& windows = steps.windows();
  for (size_t i = 0; i < windows.size(); ++i) {
    const MergedSteps::Window& window = windows[i];
    const LayoutTensor& tensor = layout.tensors()[window.tensor];
    if (IsWide(tensor) != wide) continue;
    if (i == 0 || windows[i - 1].tensor != window.tensor) file.BeginTensor(tensor);
    SKERRY_ASSIGN(const std::vector<uint32_t> positions, steps.Positions(window));
    for (const uint32_t position : positions) SKERRY_TRY(file.Add(window.first_unit + position));
    if (file.data_bytes() > most_data_bytes) return false;
    if (i + 1 == windows.size() || windows[i + 1].tensor != window.tensor) file.EndTensor();
  }
  return true;
}

Result<std::optional<ChangedPositions>> Write(const MergedSteps& steps, const Layout& layout, const Path& positions,
                                              const ChangedPositionsLimits& limits) {
  uint64_t elements = 0;
  for (const LayoutTensor& tensor : layout.tensors()) elements += ElementsOf(tensor);
  const uint64_t most_changed = static_cast<uint64_t>(limits.share * static_cast<double>(elements));
  const uint64_t most_data_bytes = std::min(limits.bytes, most_changed * sizeof(uint32_t));
  if (steps.LeastChanged() * sizeof(uint32_t) > most_data_bytes) return std::nullopt;

  const Path temporary = TemporaryBeside(positions);
  const auto write = [&]() -> Result<std::optional<ChangedPositions>> {
    SKERRY_ASSIGN(PositionsFile file, PositionsFile::Begin(temporary, HeaderBytes(steps, layout)));
    for (const bool wide : {true, false}) {
      SKERRY_ASSIGN(const bool whole, AddTensors(steps, layout, wide, most_data_bytes, file));
      if (!whole) return std::nullopt;
    }
    SKERRY_ASSIGN(const ChangedPositions counts, file.Finish());
    SKERRY_TRY(Rename(temporary, positions));
    return std::optional(counts);
  };
  auto written = write();
  if (!written || !*written) ::unlink(temporary.c_str());
  return written;
}

}  // namespace

Result<std::optional<ChangedPositions>> CollectChanges(const Path& state_directory, const Layout& layout,
                                                       const VersionLabel& from, const Path& positions,
                                                       const ChangedPositionsLimits& limits) {
  std::error_code error;
  std::filesystem::remove(positions, error);
  SKERRY_ASSIGN(const std::optional<CheckpointState> state, ReadState(state_directory));
  if (!state || JournalExists(state_directory)) return std::nullopt;
  if (state->layout != layout.digest()) {
    return Fail(Code::kMismatch, "{}: its state says layout {}, not {}", state_directory.string(),
                state->layout.Short(), layout.digest().Short());
  }
  SKERRY_ASSIGN(const UndoLog log, UndoLog::Read(state_directory));
  const std::vector<UndoStep> way = log.Between(VersionMark::Of(*state), from);
  if (way.empty() && from != state->label) return std::nullopt;
  auto steps = MergedSteps::Open(way, layout);
  if (!steps && (steps.error().code == Code::kCorrupt || steps.error().code == Code::kNotFound)) return std::nullopt;
  if (!steps) return tl::unexpected<Error>(std::move(steps).error());
  return Write(*steps, layout, positions, limits);
}

}  // namespace skerry
