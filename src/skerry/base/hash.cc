#include "skerry/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>

namespace skerry {

std::string ToHex(ByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    hex.push_back(kDigits[std::to_integer<int>(b) >> 4]);
    hex.push_back(kDigits[std::to_integer<int>(b) & 15]);
  }
  return hex;
}

Result<Bytes> FromHex(std::string_view hex) {
  const auto value = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (hex.size() % 2 != 0) return Fail(Code::kCorrupt, "odd number of hexadecimal digits: {}", hex.size());
  Bytes bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = value(hex[i]), low = value(hex[i + 1]);
    if (high < 0 || low < 0) return Fail(Code::kCorrupt, "not hexadecimal: '{}'", hex.substr(i, 2));
    bytes.push_back(static_cast<std::byte>(high << 4 | low));
  }
  return bytes;
}

std::string Digest::Hex() const { return ToHex(bytes); }

Result<Digest> Digest::FromHex(std::string_view hex) {
  SKERRY_ASSIGN(const Bytes raw, skerry::FromHex(hex));
  if (raw.size() != kSize) {
    return Fail(Code::kCorrupt, "a digest has {} hexadecimal digits, not {}", 2 * kSize, hex.size());
  }
  Digest digest;
  std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  // Fails only when memory is exhausted or OpenSSL was built without SHA-256.
  if (EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1) std::abort();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(ByteSpan bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

Digest Sha256::Finish() {
  Digest digest;
  EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.bytes.data()), nullptr);
  return digest;
}

Digest Sha256::Of(ByteSpan bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

uint64_t Xxh3(ByteSpan bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace skerry
