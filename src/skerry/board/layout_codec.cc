#include "skerry/board/layout_codec.h"

#include <zstd.h>

#include <memory>

namespace skerry {
namespace {

constexpr int kLevel = 9;

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

}  // namespace

Result<Bytes> PackLayout(ByteSpan json) {
  Bytes packed(ZSTD_compressBound(json.size()));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), json.data(), json.size(), kLevel);
  if (ZSTD_isError(size)) return Fail(Code::kInvalid, "can't pack the layout: {}", ZSTD_getErrorName(size));
  packed.resize(size);
  return packed;
}

Result<Bytes> UnpackLayout(ByteSpan packed, uint64_t limit) {
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  Bytes json, block(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  size_t hint = 1;  // 0: the frame is complete
  while (hint != 0) {
    ZSTD_outBuffer out{block.data(), block.size(), 0};
    hint = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(hint)) return Fail(Code::kCorrupt, "packed layout: {}", ZSTD_getErrorName(hint));
    if (out.pos > limit - json.size()) return Fail(Code::kCorrupt, "packed layout: more than {} bytes in it", limit);
    json.insert(json.end(), block.begin(), block.begin() + static_cast<ptrdiff_t>(out.pos));
    if (hint != 0 && in.pos == in.size && out.pos < out.size) {
      return Fail(Code::kCorrupt, "packed layout: it ends early, after {} bytes", packed.size());
    }
  }
  if (in.pos != in.size) return Fail(Code::kCorrupt, "packed layout: {} bytes follow its end", in.size - in.pos);
  return json;
}

}  // namespace skerry
