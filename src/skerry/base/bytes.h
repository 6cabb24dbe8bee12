// Little-endian integers in byte buffers: what every on-disk structure of Skerry is made of.
#ifndef SKERRY_BASE_BYTES_H_
#define SKERRY_BASE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace skerry {

static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

inline ByteSpan AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string_view AsText(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline std::string ToString(ByteSpan bytes) { return std::string(AsText(bytes)); }
inline Bytes ToBytes(ByteSpan bytes) { return Bytes(bytes.begin(), bytes.end()); }

// Unaligned load and store; the caller guarantees that sizeof(T) bytes are there.
template <typename T>
T LoadLe(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
void StoreLe(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Word `word` of `bytes` as 64-bit words, the last one of which is padded with zeros.
inline uint64_t WordAt(ByteSpan bytes, size_t word) {
  const size_t at = word * 8;
  if (at + 8 <= bytes.size()) [[likely]]
    return LoadLe<uint64_t>(bytes.data() + at);
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, bytes.size() - at);
  return value;
}

// Appends little-endian integers, LEB128 varints and raw bytes.
class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}

  template <typename T>
    requires std::is_integral_v<T>
  void Int(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), p, p + sizeof value);
  }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
    out_.push_back(static_cast<std::byte>(value));
  }
  void Raw(ByteSpan bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void Text(std::string_view text) {
    Varint(text.size());
    Raw(AsBytes(text));
  }

 private:
  Bytes& out_;
};

// Reads what ByteWriter writes from untrusted bytes. A read past the end or an over-long varint makes the reader fail
// for good: it then returns zeros and empty spans, and ok() is false. Check ok() before using what was read.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan in) : in_(in) {}

  template <typename T>
    requires std::is_integral_v<T>
  T Int() {
    const ByteSpan bytes = Raw(sizeof(T));
    return bytes.size() == sizeof(T) ? LoadLe<T>(bytes.data()) : T{0};
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Int<uint8_t>();
      const uint64_t bits = byte & 0x7F;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if ((byte & 0x80) == 0) {
        if (byte == 0 && shift > 0) break;  // one encoding for each value
        return value;
      }
    }
    Fail();
    return 0;
  }
  ByteSpan Raw(uint64_t size) {
    if (size > in_.size()) {
      Fail();
      return {};
    }
    const ByteSpan bytes = in_.first(size);
    in_ = in_.subspan(size);
    return bytes;
  }
  std::string_view Text(uint64_t max_size) {
    const uint64_t size = Varint();
    if (size > max_size) {
      Fail();
      return {};
    }
    return AsText(Raw(size));
  }

  void Fail() {
    ok_ = false;
    in_ = {};
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && in_.empty(); }
  size_t remaining() const { return in_.size(); }

 private:
  ByteSpan in_;
  bool ok_ = true;
};

}  // namespace skerry

#endif  // SKERRY_BASE_BYTES_H_
