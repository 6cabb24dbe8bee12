#include "skerry/patch/dense.h"

#include <zstd.h>

#include "skerry/patch/zstd_frame.h"

namespace skerry {
namespace {

constexpr int kZstdLevel = 1;

}  // namespace

void EncodeDense(ByteSpan values, int unit, Bytes& out) {
  const size_t units = values.size() / static_cast<size_t>(unit);
  thread_local Bytes plane, packed;
  plane.resize(units);
  packed.resize(ZSTD_compressBound(units));
  ByteWriter writer(out);
  for (int p = 0; p < unit; ++p) {
    for (size_t i = 0; i < units; ++i) plane[i] = values[i * static_cast<size_t>(unit) + static_cast<size_t>(p)];
    const size_t size = ZSTD_compress(packed.data(), packed.size(), plane.data(), units, kZstdLevel);
    // A stored length equal to the number of units says raw.
    const bool raw = ZSTD_isError(size) || size >= units;
    writer.Varint(raw ? units : size);
    writer.Raw(raw ? ByteSpan(plane) : ByteSpan(packed).first(size));
  }
}

Status DecodeDense(ByteSpan payload, uint64_t units, BlockChanges& changes) {
  const auto unit = static_cast<size_t>(changes.unit);
  thread_local Bytes plane;
  changes.all = true;
  changes.positions.clear();
  changes.values.resize(units * unit);
  ByteReader reader(payload);
  for (size_t p = 0; p < unit; ++p) {
    const uint64_t size = reader.Varint();
    if (!reader.ok() || size > units) return Fail(Code::kCorrupt, "plane {} has {} bytes for {} units", p, size, units);
    ByteSpan bytes = reader.Raw(size);
    if (!reader.ok()) return Fail(Code::kCorrupt, "plane {} is cut off", p);
    if (size < units) {
      plane.resize(units);
      if (!DecompressFrame(bytes, plane))
        return Fail(Code::kCorrupt, "plane {} is no zstd frame of {} bytes", p, units);
      bytes = plane;
    }
    for (size_t i = 0; i < units; ++i) changes.values[i * unit + p] = bytes[i];
  }
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "{} bytes after the last plane", reader.remaining());
  return {};
}

}  // namespace skerry
