#include "skerry/patch/zstd_frame.h"

#include <zstd.h>

#include <memory>

namespace skerry {
namespace {

constexpr int kLevel = 1;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

void CompressFrame(ByteSpan raw, Bytes& out) {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  const size_t start = out.size();
  out.resize(start + ZSTD_compressBound(raw.size()));
  const size_t size =
      ZSTD_compressCCtx(context.get(), out.data() + start, out.size() - start, raw.data(), raw.size(), kLevel);
  out.resize(start + (ZSTD_isError(size) ? 0 : size));
}

bool DecompressFrame(ByteSpan packed, MutableByteSpan out) {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (ZSTD_findFrameCompressedSize(packed.data(), packed.size()) != packed.size()) return false;
  const size_t got = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), packed.data(), packed.size());
  return !ZSTD_isError(got) && got == out.size();
}

}  // namespace skerry
