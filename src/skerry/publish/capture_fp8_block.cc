// Capture::TakeFp8Block.
#include <algorithm>

#include "skerry/base/parallel.h"
#include "skerry/publish/capture.h"

namespace skerry {
namespace {

uint64_t BlocksIn(uint64_t size) { return (size + kFp8BlockSide - 1) / kFp8BlockSide; }

}  // namespace

Status Capture::CheckFp8Block(size_t weight, size_t scale, DType dtype, ByteSpan values, Fp8Scales policy) const {
  for (const size_t ordinal : {weight, scale}) {
    if (ordinal >= tensors_.size()) {
      return Fail(Code::kInvalid, "tensor {} of a model that has {}", ordinal, tensors_.size());
    }
    if (!tensors_[ordinal].taken.empty()) {
      return Fail(Code::kInvalid, "tensor '{}' is given twice", layout().tensors()[ordinal].name);
    }
  }
  const LayoutTensor &codes = layout().tensors()[weight], &scales = layout().tensors()[scale];
  if (codes.dtype != DType::kF8E4M3 || codes.shape.size() != 2) {
    return Fail(Code::kInvalid, "tensor '{}' is {}: FP8 in blocks is F8_E4M3 [rows, columns]", codes.name,
                DescribeType(codes));
  }
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    return Fail(Code::kInvalid, "tensor '{}': {} can't be served as FP8 in blocks, only F32 and BF16", codes.name,
                DTypeName(dtype));
  }
  const std::vector<uint64_t> blocks = {BlocksIn(codes.shape[0]), BlocksIn(codes.shape[1])};
  if ((scales.dtype != DType::kF32 && scales.dtype != DType::kF8E8M0) || scales.shape != blocks) {
    return Fail(Code::kInvalid, "tensor '{}' is {}: the scales of '{}' ({}) are F32 or F8_E8M0 [{}, {}]", scales.name,
                DescribeType(scales), codes.name, DescribeType(codes), blocks[0], blocks[1]);
  }
  if (scales.dtype == DType::kF8E8M0 && policy == Fp8Scales::kRecompute) {
    return Fail(Code::kInvalid, "tensor '{}' is {}: scales that are recomputed need F32 (take power-of-two)",
                scales.name, DescribeType(scales));
  }
  const uint64_t needed = codes.units() * static_cast<uint64_t>(DTypeUnit(dtype));
  if (values.size() != needed) {
    return Fail(Code::kInvalid, "tensor '{}' is {}: {} bytes of {} were given, not {}", codes.name, DescribeType(codes),
                values.size(), DTypeName(dtype), needed);
  }
  return {};
}

// `values` are the masters of the matrix's row of blocks `number`.
Result<Capture::BlockRow> Capture::CompareBlockRow(size_t weight, size_t scale, uint64_t number, DType dtype,
                                                   ByteSpan values, Fp8Scales policy) const {
  const LayoutTensor &codes = layout().tensors()[weight], &scales = layout().tensors()[scale];
  const uint64_t columns = codes.shape[1], first_row = number * kFp8BlockSide, first = first_row * columns;
  const uint64_t rows = std::min<uint64_t>(kFp8BlockSide, codes.shape[0] - first_row);
  const uint64_t scale_bytes = scales.shape[1] * static_cast<uint64_t>(DTypeUnit(scales.dtype));
  Bytes codes_scratch, scales_scratch;
  SKERRY_ASSIGN(const ByteSpan codes_before, snapshot_->Read(weight, first, rows * columns, codes_scratch));
  SKERRY_ASSIGN(const ByteSpan scales_before,
                snapshot_->Read(scale, number * scale_bytes, scale_bytes, scales_scratch));
  Fp8RowChanges changes;
  CompareFp8BlockRow({.masters = values.data(),
                      .dtype = dtype,
                      .rows = rows,
                      .columns = columns,
                      .codes = codes_before.data(),
                      .scales = scales_before.data(),
                      .scale_dtype = scales.dtype},
                     policy, changes);
  if (changes.not_finite) {
    return Fail(Code::kInvalid, "tensor '{}': element [{}, {}] is NaN or infinite", codes.name,
                first_row + *changes.not_finite / columns, *changes.not_finite % columns);
  }
  BlockRow kept{.pieces = {}, .scales = std::move(changes.scales), .rescaled = changes.rescaled};
  for (size_t i = 0; i < changes.positions.size();) {
    const auto begin = changes.positions.begin() + static_cast<ptrdiff_t>(i);
    const auto end = std::lower_bound(begin, changes.positions.end(), *begin + kPieceUnits);
    const auto count = static_cast<size_t>(end - begin);
    Piece piece{.first = first + *begin, .positions = {}, .values = {}};
    piece.values.assign(changes.codes.begin() + static_cast<ptrdiff_t>(i),
                        changes.codes.begin() + static_cast<ptrdiff_t>(i + count));
    // Where it is all units from the first to the last, no positions are kept.
    if (*std::prev(end) - *begin != count - 1) {
      piece.positions.reserve(count);
      std::transform(begin, end, std::back_inserter(piece.positions),
                     [from = *begin](uint64_t position) { return static_cast<uint16_t>(position - from); });
    }
    kept.pieces.push_back(std::move(piece));
    i += count;
  }
  return kept;
}

Result<uint64_t> Capture::TakeFp8Block(size_t weight, size_t scale, DType dtype, ByteSpan values, Fp8Scales policy) {
  SKERRY_TRY(CheckFp8Block(weight, scale, dtype, values, policy));
  const LayoutTensor &codes = layout().tensors()[weight], &scales = layout().tensors()[scale];
  const uint64_t row_bytes = kFp8BlockSide * codes.shape[1] * static_cast<uint64_t>(DTypeUnit(dtype));
  std::vector<Piece> pieces;
  Bytes all_scales;
  uint64_t rescaled = 0;
  SKERRY_TRY(ParallelOrdered<BlockRow>(
      codes.units() == 0 ? 0 : scales.shape[0], codes.units() < kUnitsWorthAThread ? 1 : threads_,
      [&](size_t i) {
        const ByteSpan from = values.subspan(i * row_bytes);
        return CompareBlockRow(weight, scale, i, dtype, from.first(std::min<uint64_t>(row_bytes, from.size())), policy);
      },
      [&](size_t, BlockRow row) -> Status {
        std::ranges::move(row.pieces, std::back_inserter(pieces));
        all_scales.insert(all_scales.end(), row.scales.begin(), row.scales.end());
        rescaled += row.rescaled;
        return {};
      }));
  SKERRY_TRY(Take(scale, 0, scales.dtype, all_scales));
  tensors_[weight].pieces = std::move(pieces);
  Add(tensors_[weight].taken, {0, codes.units()});
  return rescaled;
}

}  // namespace skerry
