#include "skerry/patch/huffman_frame.h"

#include <algorithm>
#include <memory>

#include "skerry/patch/huffman_code.h"

namespace skerry {
namespace {

constexpr uint32_t kMagic = 0xFD2FB528;
constexpr uint8_t kSizeInFourBytes = 0xA0;  // and the window is the content
constexpr size_t kMaxBlock = 128 << 10;
constexpr size_t kWorthCoding = 256;

enum BlockType : uint32_t { kRawBlock = 0, kRepeatedByte = 1, kCompressed = 2 };

// A code as the writer takes it: the code's bits at the top, their number in the lowest byte. Two codes in a row are
// one entry, too.
using Entry = uint64_t;

constexpr Entry Join(Entry first, Entry second) {
  return (first & ~Entry{0xFF}) >> (second & 0xFF) | (second & ~Entry{0xFF}) | ((first & 0xFF) + (second & 0xFF));
}

class Entries {
 public:
  explicit Entries(const HuffmanCode& code) {
    std::array<uint8_t, 256> used;
    size_t count = 0;
    for (size_t s = 0; s < 256; ++s) {
      if (code.bits[s] == 0) continue;
      used[count++] = static_cast<uint8_t>(s);
      single_[s] = Entry{code.code[s]} << (64 - code.bits[s]) | code.bits[s];
    }
    has_pairs_ = count <= kMostForPairs;
    if (!has_pairs_) return;
    for (const uint8_t low : std::span(used).first(count)) {
      for (const uint8_t high : std::span(used).first(count)) {
        pairs_[high << 8 | low] = Join(single_[high], single_[low]);
      }
    }
  }
  bool has_pairs() const { return has_pairs_; }
  Entry single(std::byte byte) const { return single_[std::to_integer<size_t>(byte)]; }
  const Entry* pairs() const { return pairs_; }

 private:
  static constexpr size_t kMostForPairs = 64;  // 4096 entries are made in a tenth of the time that a cell takes

  static Entry* PairTable() {
    thread_local const auto table = std::make_unique_for_overwrite<Entry[]>(1 << 16);
    return table.get();
  }

  std::array<Entry, 256> single_{};
  // By two neighbouring bytes; only entries of bytes that have codes are set. (Exponents have few, whose entries stay
  // in the first-level cache.)
  Entry* const pairs_ = PairTable();
  bool has_pairs_ = false;
};

// Writes a stream, from the last byte to the first: its reader begins at the end. Bits are held at the top of a word,
// the last ones highest; below them is what is left of earlier ones, and of the numbers of bits.
class StreamWriter {
 public:
  StreamWriter(ByteSpan bytes, std::byte* out) : bytes_(bytes.data()), left_(bytes.size()), out_(out), start_(out) {}

  size_t left() const { return left_; }
  void PutOne(const Entries& entries) {
    Put(entries.single(bytes_[--left_]));
    Flush();
  }
  // Four codes are 44 bits at most, and 7 may be held before.
  template <bool kPairs>
  void PutFour(const Entries& entries) {
    left_ -= 4;
    const std::byte* at = bytes_ + left_;
    if constexpr (kPairs) {
      Put(entries.pairs()[LoadLe<uint16_t>(at + 2)]);
      Put(entries.pairs()[LoadLe<uint16_t>(at)]);
    } else {
      for (int i = 3; i >= 0; --i) Put(entries.single(at[i]));
    }
    Flush();
  }
  ByteSpan Finish() {
    Put(Entry{1} << 63 | 1);
    Flush();
    return {start_, out_ + ((bits_ & 7) != 0)};
  }

 private:
  void Put(Entry entry) {
    held_ = held_ >> (entry & 63) | entry;
    bits_ += entry;  // only its lowest byte counts
  }
  void Flush() {
    bits_ &= 0xFF;
    StoreLe(out_, held_ >> (64 - bits_));  // at least one bit is held
    out_ += bits_ >> 3;
    bits_ &= 7;
  }

  const std::byte* bytes_;
  size_t left_;
  std::byte* out_;
  std::byte* start_;
  uint64_t held_ = 0, bits_ = 0;
};

// Two streams at a time: what each does next depends on what it did before, so there is work for both.
template <bool kPairs>
void WriteStreams(StreamWriter a, StreamWriter b, const Entries& entries, ByteSpan& a_out, ByteSpan& b_out) {
  while (a.left() % 4 != 0) a.PutOne(entries);
  while (b.left() % 4 != 0) b.PutOne(entries);
  while (a.left() > 0 && b.left() > 0) {
    a.PutFour<kPairs>(entries);
    b.PutFour<kPairs>(entries);
  }
  while (a.left() > 0) a.PutFour<kPairs>(entries);
  while (b.left() > 0) b.PutFour<kPairs>(entries);
  a_out = a.Finish();
  b_out = b.Finish();
}

// The content of a compressed block: literals in four streams, no sequences. False where the code has no description.
bool WriteCompressed(ByteSpan bytes, const HuffmanCode& code, Bytes& out) {
  constexpr size_t kHeader = 5, kSlack = 8;
  const size_t start = out.size();
  out.resize(start + kHeader);
  if (!WriteHuffmanCode(code, out)) return false;
  const Entries entries(code);
  const size_t part = (bytes.size() + 3) / 4, room = (part * kMaxCodeBits + 8) / 8 + kSlack;
  thread_local Bytes scratch;
  scratch.resize(4 * room);
  const auto stream = [&](size_t s) {
    return StreamWriter(bytes.subspan(s * part, std::min(part, bytes.size() - s * part)), scratch.data() + s * room);
  };
  std::array<ByteSpan, 4> streams;
  const auto write = entries.has_pairs() ? WriteStreams<true> : WriteStreams<false>;
  write(stream(0), stream(1), entries, streams[0], streams[1]);
  write(stream(2), stream(3), entries, streams[2], streams[3]);

  ByteWriter writer(out);
  for (size_t s = 0; s < 3; ++s) writer.Int(static_cast<uint16_t>(streams[s].size()));
  for (const ByteSpan one : streams) writer.Raw(one);
  // Huffman-coded literals, sizes of 18 bits.
  const uint64_t packed = out.size() - start - kHeader;
  const uint64_t header = 2 | 3 << 2 | uint64_t{bytes.size()} << 4 | packed << 22;
  std::memcpy(out.data() + start, &header, kHeader);
  writer.Int(uint8_t{0});
  return true;
}

void WriteBlock(ByteSpan bytes, bool last, Bytes& out) {
  const size_t start = out.size();
  const auto finish = [&](BlockType type, size_t size) {
    const uint32_t header = static_cast<uint32_t>(last) | type << 1 | static_cast<uint32_t>(size) << 3;
    std::memcpy(out.data() + start, &header, 3);
  };
  out.resize(start + 3);
  ByteWriter writer(out);
  if (bytes.size() >= kWorthCoding) {
    const ByteCounts counts = CountForCode(bytes);
    if (std::count(counts.begin(), counts.end(), 0u) == 255) {
      out.push_back(bytes.front());
      return finish(kRepeatedByte, bytes.size());
    }
    const bool coded = WriteCompressed(bytes, MakeHuffmanCode(counts), out);
    const size_t size = out.size() - start - 3;
    if (coded && size < bytes.size()) return finish(kCompressed, size);
    out.resize(start + 3);
  }
  writer.Raw(bytes);
  finish(kRawBlock, bytes.size());
}

}  // namespace

void EncodeHuffmanFrame(ByteSpan bytes, Bytes& out) {
  ByteWriter writer(out);
  writer.Int(kMagic);
  writer.Int(kSizeInFourBytes);
  writer.Int(static_cast<uint32_t>(bytes.size()));
  do {
    const ByteSpan block = bytes.first(std::min(kMaxBlock, bytes.size()));
    bytes = bytes.subspan(block.size());
    WriteBlock(block, bytes.empty(), out);
  } while (!bytes.empty());
}

}  // namespace skerry
