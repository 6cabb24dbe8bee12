#include "skerry/apply/merged_steps.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace skerry {

// The units of a window: which are touched, and with what.
struct MergedSteps::Overlay {
  Overlay(uint64_t units, uint64_t unit, bool with_values)
      : unit(unit), touched((units + 63) / 64), values(with_values ? units * unit : 0) {}

  void Touch(uint64_t at, const std::byte* value) {
    touched[at / 64] |= uint64_t{1} << (at % 64);
    if (!values.empty()) std::memcpy(values.data() + at * unit, value, unit);
  }
  uint64_t Count() const {
    uint64_t count = 0;
    for (const uint64_t word : touched) count += static_cast<uint64_t>(std::popcount(word));
    return count;
  }
  template <typename Take>
  void ForEach(Take take) const {
    for (size_t i = 0; i < touched.size(); ++i) {
      for (uint64_t word = touched[i]; word != 0; word &= word - 1) {
        take(static_cast<uint32_t>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
      }
    }
  }

  const uint64_t unit;
  std::vector<uint64_t> touched;
  Bytes values;
};

Result<MergedSteps> MergedSteps::Open(std::span<const UndoStep> steps, const Layout& layout) {
  MergedSteps merged;
  for (const UndoStep& step : steps) {
    SKERRY_ASSIGN(UndoEntry entry, ReadUndoEntry(step));
    SKERRY_TRY(merged.Add(std::move(entry), layout));
  }
  merged.MakeWindows(layout);
  return merged;
}

Status MergedSteps::Add(UndoEntry entry, const Layout& layout) {
  const auto& tensors = layout.tensors();
  if (entry.from.layout != layout.digest() || entry.from.tensors.size() != tensors.size()) {
    return entry.reader.Damaged("made for files of another layout");
  }
  uint64_t changed = 0;
  for (const UndoRecord& record : entry.records) {
    const RecordHead& head = record.head;
    if (head.tensor >= tensors.size() || head.unit != DTypeUnit(tensors[head.tensor].dtype) ||
        head.first_unit > tensors[head.tensor].units() || head.units > tensors[head.tensor].units() - head.first_unit) {
      return entry.reader.Damaged("a record does not fit the checkpoint's layout");
    }
    records_.push_back({.record = record, .entry = static_cast<uint32_t>(entries_.size())});
    changed += head.changed();
  }
  least_changed_ = std::max(least_changed_, changed);
  most_changed_ += changed;
  std::map<std::string, std::optional<Bytes>> files;
  for (SideFileChange& file : side_files_) files[file.path] = std::move(file.content);
  for (SideFileChange& file : entry.side_files) files[file.path] = std::move(file.content);
  side_files_.clear();
  for (auto& [path, content] : files) side_files_.push_back({.path = path, .content = std::move(content)});
  from_ = std::move(entry.from);
  entries_.push_back(std::move(entry.reader));
  return {};
}

void MergedSteps::MakeWindows(const Layout& layout) {
  for (size_t i = 0; i < records_.size(); ++i) {
    const RecordHead& head = records_[i].record.head;
    if (head.changed() == 0) continue;
    const uint64_t last = (head.first_unit + head.units - 1) / kWindowUnits;
    for (uint64_t window = head.first_unit / kWindowUnits; window <= last; ++window) {
      touches_.push_back({.tensor = head.tensor, .window = window, .record = i});
    }
  }
  std::sort(touches_.begin(), touches_.end(), [](const Touch& a, const Touch& b) {
    return std::tie(a.tensor, a.window, a.record) < std::tie(b.tensor, b.window, b.record);
  });
  for (size_t i = 0; i < touches_.size(); ++i) {
    const Touch& touch = touches_[i];
    const uint64_t first = touch.window * kWindowUnits;
    if (windows_.empty() || windows_.back().tensor != touch.tensor || windows_.back().first_unit != first) {
      windows_.push_back({.tensor = touch.tensor,
                          .first_unit = first,
                          .units = std::min(kWindowUnits, layout.tensors()[touch.tensor].units() - first),
                          .first_touch = i});
    }
    ++windows_.back().touches;
  }
}

Status MergedSteps::Lay(const Window& window, Overlay& overlay) const {
  Bytes scratch;
  for (size_t t = window.first_touch; t < window.first_touch + window.touches; ++t) {
    const Record& record = records_[touches_[t].record];
    const RecordHead& head = record.record.head;
    const ChangeFileReader& reader = entries_[record.entry];
    const uint64_t positions_bytes = uint64_t{head.positions} * sizeof(uint32_t);
    SKERRY_ASSIGN(const ByteSpan body,
                  reader.file().Read(record.record.offset, positions_bytes + head.changed() * head.unit, scratch));
    const std::byte* const values = body.data() + positions_bytes;
    const uint64_t end = window.first_unit + window.units;
    if (head.all) {
      const uint64_t from = std::max(head.first_unit, window.first_unit);
      const uint64_t to = std::min(head.first_unit + head.units, end);
      for (uint64_t at = from; at < to; ++at) {
        overlay.Touch(at - window.first_unit, values + (at - head.first_unit) * head.unit);
      }
      continue;
    }
    const auto position = [&](uint64_t i) {
      return head.first_unit + LoadLe<uint32_t>(body.data() + i * sizeof(uint32_t));
    };
    uint64_t low = 0, high = head.positions;  // to the first position in the window
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      if (position(middle) < window.first_unit) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    for (uint64_t i = low; i < head.positions; ++i) {
      const uint64_t at = position(i);
      if (at >= end) break;
      overlay.Touch(at - window.first_unit, values + i * head.unit);
    }
    SKERRY_TRY(reader.file().Check());
  }
  return {};
}

Result<BlockChanges> MergedSteps::Changes(const Window& window) const {
  const uint64_t unit = records_[touches_[window.first_touch].record].record.head.unit;
  Overlay overlay(window.units, unit, /*with_values=*/true);
  SKERRY_TRY(Lay(window, overlay));
  const uint64_t count = overlay.Count();
  BlockChanges changes{.unit = static_cast<int>(unit), .all = count == window.units};
  if (changes.all) {
    changes.values = std::move(overlay.values);
    return changes;
  }
  changes.positions.reserve(count);
  changes.values.resize(count * unit);
  std::byte* value = changes.values.data();
  overlay.ForEach([&](uint32_t at) {
    changes.positions.push_back(at);
    std::memcpy(value, overlay.values.data() + at * unit, unit);
    value += unit;
  });
  return changes;
}

Result<std::vector<uint32_t>> MergedSteps::Positions(const Window& window) const {
  Overlay overlay(window.units, 1, /*with_values=*/false);
  SKERRY_TRY(Lay(window, overlay));
  std::vector<uint32_t> positions;
  positions.reserve(overlay.Count());
  overlay.ForEach([&](uint32_t at) { positions.push_back(at); });
  return positions;
}

uint64_t MergedSteps::bytes() const {
  uint64_t sum = 0;
  for (const ChangeFileReader& entry : entries_) sum += entry.file().size();
  return sum;
}

}  // namespace skerry
