#include "skerry/patch/plane_packing.h"

#include <bit>

#include "skerry/patch/byte_counts.h"
#include "skerry/patch/huffman_frame.h"
#include "skerry/patch/zstd_frame.h"

namespace skerry {
namespace {

// Smaller planes are packed in both ways.
constexpr size_t kWorthJudging = 8 << 10;

// How alike the bytes are is judged by the chance that two of them are equal, from so many. It is 1/256 for noise,
// about 1/245 for the mantissas of trained weights and 1/5 for their exponents (1/3 for those of uniform weights).
constexpr size_t kSample = 2 << 10;

// A prefix code must save some 5 % to be worth the time that it takes in decoding.
constexpr double kLeastCoded = 1.0 / 160;

// Where bytes are more alike, runs and repetitions make up most of a plane, and a code of whole bits is no good.
constexpr double kMostCoded = 0.4;

double ChanceOfEqual(const ByteCounts& counts) {
  double total = 0, pairs = 0;
  for (const uint32_t count : counts) {
    total += count;
    pairs += static_cast<double>(count) * (count - 1.0);
  }
  return pairs / (total * (total - 1));
}

// Whether strings come again at places that are multiples of 64 apart, as in rows that are the same. Of sixteen bytes
// that is not to be expected even where a byte takes but a bit and a half.
bool RepeatsRows(ByteSpan plane) {
  constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F;  // of XXH64
  constexpr size_t kStep = 64, kString = 16, kRepeatsInOne = 16;
  constexpr int kHashBits = 10;
  uint64_t seen[1 << kHashBits] = {};
  size_t looked = 0, repeated = 0;
  for (size_t at = 0; at + kString <= plane.size(); at += kStep, ++looked) {
    const auto low = LoadLe<uint64_t>(plane.data() + at), high = LoadLe<uint64_t>(plane.data() + at + 8);
    const uint64_t hash = low * kPrime1 + std::rotl(high * kPrime2, 31);
    uint64_t& slot = seen[hash >> (64 - kHashBits)];
    repeated += slot == hash;
    slot = hash;
  }
  return repeated * kRepeatsInOne > looked;
}

// Keeps what was appended to `out` from `start` on where it is shorter than `limit`.
void KeepIfShorter(size_t start, size_t limit, Bytes& out) {
  if (out.size() - start >= limit) out.resize(start);
}

void PackSmall(ByteSpan plane, Bytes& out) {
  const size_t start = out.size();
  CompressFrame(plane, out);
  const size_t with_matches = out.size() - start;
  EncodeHuffmanFrame(plane, out);
  const size_t without = out.size() - start - with_matches;
  if (without < with_matches) {
    out.erase(out.begin() + static_cast<ptrdiff_t>(start), out.begin() + static_cast<ptrdiff_t>(start + with_matches));
  } else {
    out.resize(start + with_matches);
  }
  KeepIfShorter(start, plane.size(), out);
}

}  // namespace

void PackPlane(ByteSpan plane, Bytes& out) {
  if (plane.size() < kWorthJudging) return PackSmall(plane, out);
  const size_t start = out.size();
  const double equal = ChanceOfEqual(CountSample(plane, kSample));
  if (equal > kMostCoded || RepeatsRows(plane)) {
    CompressFrame(plane, out);
  } else if (equal > kLeastCoded) {
    EncodeHuffmanFrame(plane, out);
  }
  KeepIfShorter(start, plane.size(), out);
}

}  // namespace skerry
