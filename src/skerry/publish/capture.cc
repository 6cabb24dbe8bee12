#include "skerry/publish/capture.h"

#include <algorithm>
#include <cstring>

#include "skerry/base/parallel.h"
#include "skerry/diff/find_changes.h"
#include "skerry/diff/narrow.h"

namespace skerry {
namespace {

// Units that are cast and compared at a time: they stay in the processor's first cache.
constexpr uint64_t kStripUnits = 1 << 12;

}  // namespace

Capture::Capture(const TensorSource& snapshot, uint64_t generation, int threads)
    : snapshot_(&snapshot), generation_(generation), threads_(threads), tensors_(snapshot.layout().tensors().size()) {}

// False where a part of it is there already.
bool Capture::Add(std::vector<Range>& taken, Range range) {
  if (range.first == range.end) return true;
  const auto next = std::lower_bound(taken.begin(), taken.end(), range.first,
                                     [](const Range& one, uint64_t first) { return one.first < first; });
  if (next != taken.end() && next->first < range.end) return false;
  if (next != taken.begin() && std::prev(next)->end > range.first) return false;
  const bool joins_next = next != taken.end() && next->first == range.end;
  if (next != taken.begin() && std::prev(next)->end == range.first) {
    std::prev(next)->end = joins_next ? next->end : range.end;
    if (joins_next) taken.erase(next);
  } else if (joins_next) {
    next->first = range.first;
  } else {
    taken.insert(next, range);
  }
  return true;
}

// `values` are those of `units` units.
Result<Capture::Piece> Capture::Compare(size_t ordinal, uint64_t first, uint64_t units, DType dtype,
                                        ByteSpan values) const {
  const LayoutTensor& tensor = layout().tensors()[ordinal];
  const auto unit = static_cast<uint64_t>(DTypeUnit(tensor.dtype));
  const auto given = static_cast<uint64_t>(DTypeUnit(dtype));
  Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan before, snapshot_->Read(ordinal, first * unit, units * unit, scratch));
  thread_local Bytes narrowed(kStripUnits * sizeof(uint16_t));
  thread_local std::vector<uint32_t> positions(kStripUnits + 64);
  Piece piece{.first = first, .positions = {}, .values = {}};
  for (uint64_t at = 0; at < units; at += kStripUnits) {
    const uint64_t count = std::min(kStripUnits, units - at);
    const std::byte* after = values.data() + at * given;
    if (dtype != tensor.dtype) {
      NarrowF32(after, count, tensor.dtype, narrowed.data());
      after = narrowed.data();
    }
    const size_t changed =
        FindChanges(before.data() + at * unit, after, count, static_cast<int>(unit), positions.data());
    if (changed == 0) continue;
    const size_t had = piece.values.size();
    piece.values.resize(had + changed * unit);
    piece.positions.resize(piece.positions.size() + changed);
    uint16_t* position = piece.positions.data() + piece.positions.size() - changed;
    std::byte* value = piece.values.data() + had;
    for (size_t i = 0; i < changed; ++i, value += unit) {
      position[i] = static_cast<uint16_t>(at + positions[i]);
      std::memcpy(value, after + positions[i] * unit, unit);
    }
  }
  if (piece.positions.size() == units) piece.positions.clear();
  piece.positions.shrink_to_fit();
  piece.values.shrink_to_fit();
  return piece;
}

Status Capture::Take(size_t ordinal, uint64_t first, DType dtype, ByteSpan values) {
  if (ordinal >= tensors_.size()) {
    return Fail(Code::kInvalid, "tensor {} of a model that has {}", ordinal, tensors_.size());
  }
  const LayoutTensor& tensor = layout().tensors()[ordinal];
  const bool rounds = dtype == DType::kF32 && (tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16);
  if (dtype != tensor.dtype && !rounds) {
    return Fail(Code::kInvalid, "tensor '{}' is {}: {} can't be served as that (cast it first)", tensor.name,
                DescribeType(tensor), DTypeName(dtype));
  }
  const auto given = static_cast<uint64_t>(DTypeUnit(dtype));
  const uint64_t units = values.size() / given;
  if (values.size() % given != 0 || first > tensor.units() || units > tensor.units() - first) {
    return Fail(Code::kInvalid, "tensor '{}' is {}: {} bytes of {} from element {} on are not within it", tensor.name,
                DescribeType(tensor), values.size(), DTypeName(dtype), first);
  }
  Tensor& kept = tensors_[ordinal];
  if (!Add(kept.taken, {first, first + units})) {
    return Fail(Code::kInvalid, "tensor '{}': elements {} to {} are given twice", tensor.name, first, first + units);
  }
  std::vector<Piece> pieces;
  const uint64_t count = (units + kPieceUnits - 1) / kPieceUnits;
  SKERRY_TRY(ParallelOrdered<Piece>(
      count, units < kUnitsWorthAThread ? 1 : threads_,
      [&](size_t i) {
        const uint64_t from = i * kPieceUnits, size = std::min(kPieceUnits, units - from);
        return Compare(ordinal, first + from, size, dtype, values.subspan(from * given, size * given));
      },
      [&](size_t, Piece piece) -> Status {
        if (!piece.values.empty()) pieces.push_back(std::move(piece));
        return {};
      }));
  const auto place = std::lower_bound(kept.pieces.begin(), kept.pieces.end(), first,
                                      [](const Piece& piece, uint64_t unit) { return piece.first < unit; });
  kept.pieces.insert(place, std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
  return {};
}

std::vector<size_t> Capture::Untaken() const {
  std::vector<size_t> untaken;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const uint64_t units = layout().tensors()[i].units();
    const std::vector<Range>& taken = tensors_[i].taken;
    const bool whole = units == 0 || (taken.size() == 1 && taken[0].first == 0 && taken[0].end == units);
    if (!whole) untaken.push_back(i);
  }
  return untaken;
}

uint64_t Capture::changed() const {
  uint64_t units = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto unit = static_cast<uint64_t>(DTypeUnit(layout().tensors()[i].dtype));
    for (const Piece& piece : tensors_[i].pieces) units += piece.values.size() / unit;
  }
  return units;
}

uint64_t Capture::kept_bytes() const {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors_) {
    for (const Piece& piece : tensor.pieces) {
      bytes += sizeof(Piece) + piece.positions.size() * sizeof(uint16_t) + piece.values.size();
    }
  }
  return bytes;
}

Result<ByteSpan> Capture::Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const {
  SKERRY_ASSIGN(const ByteSpan before, snapshot_->Read(ordinal, offset, length, scratch));
  const auto unit = static_cast<uint64_t>(DTypeUnit(layout().tensors()[ordinal].dtype));
  const std::vector<Piece>& pieces = tensors_[ordinal].pieces;
  // The first piece that may reach into what is read.
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), offset / unit,
                                [](uint64_t at, const Piece& one) { return at < one.first; });
  if (piece != pieces.begin()) --piece;
  const uint64_t end = offset + length;
  bool copied = false;
  // Writes what lies within the range of a unit's bytes.
  const auto put = [&](uint64_t byte, const std::byte* value, uint64_t size) {
    const uint64_t from = std::max(byte, offset), to = std::min(byte + size, end);
    if (from >= to) return;
    if (!copied && before.data() != scratch.data()) scratch.assign(before.begin(), before.end());
    copied = true;
    std::memcpy(scratch.data() + (from - offset), value + (from - byte), to - from);
  };
  for (; piece != pieces.end() && piece->first * unit < end; ++piece) {
    if (piece->positions.empty()) {
      put(piece->first * unit, piece->values.data(), piece->values.size());
      continue;
    }
    // Positions before the range are passed over in one go.
    const uint64_t first = offset / unit > piece->first ? offset / unit - piece->first : 0;
    auto position = std::lower_bound(piece->positions.begin(), piece->positions.end(), first);
    for (; position != piece->positions.end(); ++position) {
      const uint64_t byte = (piece->first + *position) * unit;
      if (byte >= end) break;
      put(byte, piece->values.data() + static_cast<uint64_t>(position - piece->positions.begin()) * unit, unit);
    }
  }
  return copied ? ByteSpan(scratch).first(length) : before;
}

}  // namespace skerry
