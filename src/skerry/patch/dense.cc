#include "skerry/patch/dense.h"

#include <xxhash.h>

#include "skerry/patch/byte_planes.h"
#include "skerry/patch/plane_packing.h"
#include "skerry/patch/zstd_frame.h"

namespace skerry {

void EncodeDense(ByteSpan values, DType dtype, Bytes& out) {
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  const size_t units = values.size() / unit;
  thread_local Bytes planes, packed;
  planes.resize(values.size());
  SplitPlanes(values, dtype, planes.data());
  if (out.empty()) out.reserve(values.size());
  ByteWriter writer(out);
  for (size_t p = 0; p < unit; ++p) {
    const auto plane = ByteSpan(planes).subspan(p * units, units);
    packed.clear();
    PackPlane(plane, packed);
    const ByteSpan best = packed.empty() ? plane : ByteSpan(packed);
    writer.Varint(best.size());  // as many bytes as there are units say raw
    writer.Raw(best);
  }
}

uint32_t DenseChecksum(ByteSpan values) { return static_cast<uint32_t>(XXH3_64bits(values.data(), values.size())); }

Status DecodeDense(ByteSpan payload, uint64_t units, DType dtype, BlockChanges& changes) {
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  thread_local std::array<Bytes, kMaxPlanes> unpacked;
  std::array<const std::byte*, kMaxPlanes> planes{};
  ByteReader reader(payload);
  for (size_t p = 0; p < unit; ++p) {
    const uint64_t size = reader.Varint();
    if (!reader.ok() || size > units) return Fail(Code::kCorrupt, "plane {} has {} bytes for {} units", p, size, units);
    const ByteSpan bytes = reader.Raw(size);
    if (!reader.ok()) return Fail(Code::kCorrupt, "plane {} is cut off", p);
    planes[p] = bytes.data();
    if (size == units) continue;
    unpacked[p].resize(units);
    if (!DecompressFrame(bytes, unpacked[p])) {
      return Fail(Code::kCorrupt, "plane {} is no zstd frame of {} bytes", p, units);
    }
    planes[p] = unpacked[p].data();
  }
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "{} bytes after the last plane", reader.remaining());
  changes.all = true;
  changes.positions.clear();
  changes.values.resize(units * unit);
  JoinPlanes(planes, dtype, changes.values);
  return {};
}

}  // namespace skerry
