// Ed25519 signatures (RFC 8032, by OpenSSL): who made something, proved without a secret that verifiers share.
#ifndef SKERRY_BASE_SIGNING_H_
#define SKERRY_BASE_SIGNING_H_

#include <array>
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace skerry {

struct Signature {
  static constexpr size_t kSize = 64;
  std::array<std::byte, kSize> bytes{};

  std::string Hex() const;
  // Lower-case digits only, so that a signature has one spelling; anything else is kInvalid.
  static Result<Signature> FromHex(std::string_view hex);
  auto operator<=>(const Signature&) const = default;
};

// The half of a key pair that everybody may know.
struct PublicKey {
  static constexpr size_t kSize = 32;
  std::array<std::byte, kSize> bytes{};

  // "ed25519:" and 64 lower-case hexadecimal digits.
  std::string Text() const;
  // For people: the first 16 hexadecimal digits of the SHA-256 of the 32 bytes.
  std::string Id() const;
  // A SubjectPublicKeyInfo in PEM (RFC 8410).
  std::string Pem() const;

  // kInvalid for anything else than what Text() and Pem() write.
  static Result<PublicKey> FromText(std::string_view text);
  static Result<PublicKey> FromPem(std::string_view pem);

  // Whether the key's owner signed these bytes.
  bool Verifies(ByteSpan message, const Signature& signature) const;
  auto operator<=>(const PublicKey&) const = default;
};

// Bytes that are wiped when they go.
class SecretBytes {
 public:
  explicit SecretBytes(Bytes bytes) : bytes_(std::move(bytes)) {}
  ~SecretBytes();
  SecretBytes(SecretBytes&&) noexcept = default;
  SecretBytes& operator=(SecretBytes&&) = delete;
  ByteSpan span() const { return bytes_; }

 private:
  Bytes bytes_;
};

// The half that signs. Copies share one key, which OpenSSL wipes with the last of them. Nothing prints it: it has no
// text but ToPem(). Signing may be done from several threads at once.
class PrivateKey {
 public:
  static constexpr size_t kSeedSize = 32;

  static Result<PrivateKey> Generate();
  // The 32 bytes that RFC 8032 calls the private key.
  static PrivateKey FromSeed(std::span<const std::byte, kSeedSize> seed);
  // PKCS#8, not encrypted. kInvalid for anything else, with a message that shows nothing of it.
  static Result<PrivateKey> FromPem(const SecretBytes& pem);
  SecretBytes ToPem() const;

  const PublicKey& public_key() const { return public_key_; }
  // The same bytes give the same signature.
  Signature Sign(ByteSpan message) const;

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key);
  friend std::ostream& operator<<(std::ostream&, const PrivateKey&) = delete;

  std::shared_ptr<evp_pkey_st> key_;
  PublicKey public_key_;
};

}  // namespace skerry

#endif  // SKERRY_BASE_SIGNING_H_
