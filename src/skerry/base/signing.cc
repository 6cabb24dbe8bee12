#include "skerry/base/signing.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstdlib>

#include "skerry/base/hash.h"

namespace skerry {
namespace {

constexpr std::string_view kTextPrefix = "ed25519:";

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using UniqueKey = std::unique_ptr<EVP_PKEY, Free>;
using UniqueContext = std::unique_ptr<EVP_MD_CTX, Free>;
using UniqueBio = std::unique_ptr<BIO, Free>;

const unsigned char* Raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// What fails only when memory is exhausted or OpenSSL was built without Ed25519.
void Require(bool worked) {
  if (!worked) std::abort();
}

// Every digit lower-case, `out` filled exactly.
bool ReadHex(std::string_view hex, MutableByteSpan out) {
  const Result<Bytes> bytes = FromHex(hex);
  if (!bytes || bytes->size() != out.size() || ToHex(*bytes) != hex) return false;
  std::copy(bytes->begin(), bytes->end(), out.begin());
  return true;
}

// Where OpenSSL would ask the terminal for a passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

UniqueBio ReadFrom(ByteSpan bytes) {
  // An empty span has a null pointer, which OpenSSL takes for a mistake.
  UniqueBio bio(
      BIO_new_mem_buf(bytes.empty() ? "" : static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size())));
  Require(bio != nullptr);
  return bio;
}

ByteSpan WrittenTo(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return AsBytes(std::string_view(text, static_cast<size_t>(size)));
}

// `key` is null where OpenSSL could not read it.
Status CheckIsEd25519(const EVP_PKEY* key, std::string_view kind) {
  ERR_clear_error();
  if (key == nullptr) return Fail(Code::kInvalid, "it holds no {} key in PEM without a passphrase", kind);
  if (EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519) return {};
  const char* name = EVP_PKEY_get0_type_name(key);
  return Fail(Code::kInvalid, "it holds a key for {}, not for Ed25519", name == nullptr ? "something else" : name);
}

PublicKey PublicHalf(const EVP_PKEY* key) {
  PublicKey out;
  size_t size = out.bytes.size();
  Require(EVP_PKEY_get_raw_public_key(key, Raw(out.bytes.data()), &size) == 1 && size == out.bytes.size());
  return out;
}

UniqueKey OpenPublic(const PublicKey& key) {
  return UniqueKey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Raw(key.bytes.data()), key.bytes.size()));
}

}  // namespace

std::string Signature::Hex() const { return ToHex(bytes); }

Result<Signature> Signature::FromHex(std::string_view hex) {
  Signature signature;
  if (ReadHex(hex, signature.bytes)) return signature;
  return Fail(Code::kInvalid, "a signature is {} lower-case hexadecimal digits", 2 * kSize);
}

std::string PublicKey::Text() const { return std::string(kTextPrefix) + ToHex(bytes); }

std::string PublicKey::Id() const { return Sha256::Of(bytes).Hex().substr(0, 16); }

std::string PublicKey::Pem() const {
  const UniqueKey key = OpenPublic(*this);
  const UniqueBio bio(BIO_new(BIO_s_mem()));
  Require(key != nullptr && bio != nullptr && PEM_write_bio_PUBKEY(bio.get(), key.get()) == 1);
  return ToString(WrittenTo(bio.get()));
}

Result<PublicKey> PublicKey::FromText(std::string_view text) {
  PublicKey key;
  if (text.starts_with(kTextPrefix) && ReadHex(text.substr(kTextPrefix.size()), key.bytes)) return key;
  return Fail(Code::kInvalid, "a public key is {} and {} lower-case hexadecimal digits", kTextPrefix, 2 * kSize);
}

Result<PublicKey> PublicKey::FromPem(std::string_view pem) {
  const UniqueBio bio = ReadFrom(AsBytes(pem));
  const UniqueKey key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassphrase, nullptr));
  SKERRY_TRY(CheckIsEd25519(key.get(), "public"));
  return PublicHalf(key.get());
}

bool PublicKey::Verifies(ByteSpan message, const Signature& signature) const {
  const UniqueKey key = OpenPublic(*this);
  const UniqueContext context(EVP_MD_CTX_new());
  Require(key != nullptr && context != nullptr);
  const bool good = EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                    EVP_DigestVerify(context.get(), Raw(signature.bytes.data()), signature.bytes.size(),
                                     Raw(message.data()), message.size()) == 1;
  ERR_clear_error();
  return good;
}

SecretBytes::~SecretBytes() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

PrivateKey::PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)), public_key_(PublicHalf(key_.get())) {}

Result<PrivateKey> PrivateKey::Generate() {
  UniqueKey key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  ERR_clear_error();
  if (key == nullptr) return Fail(Code::kIo, "can't make a key: the operating system gives no random numbers");
  return PrivateKey(std::move(key));
}

PrivateKey PrivateKey::FromSeed(std::span<const std::byte, kSeedSize> seed) {
  UniqueKey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Raw(seed.data()), seed.size()));
  Require(key != nullptr);
  return PrivateKey(std::move(key));
}

Result<PrivateKey> PrivateKey::FromPem(const SecretBytes& pem) {
  const UniqueBio bio = ReadFrom(pem.span());
  UniqueKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  SKERRY_TRY(CheckIsEd25519(key.get(), "private"));
  return PrivateKey(std::move(key));
}

SecretBytes PrivateKey::ToPem() const {
  // OpenSSL wipes the buffer when it frees it.
  const UniqueBio bio(BIO_new(BIO_s_mem()));
  Require(bio != nullptr &&
          PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return SecretBytes(ToBytes(WrittenTo(bio.get())));
}

Signature PrivateKey::Sign(ByteSpan message) const {
  const UniqueContext context(EVP_MD_CTX_new());
  Signature signature;
  size_t size = signature.bytes.size();
  Require(context != nullptr && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
          EVP_DigestSign(context.get(), Raw(signature.bytes.data()), &size, Raw(message.data()), message.size()) == 1 &&
          size == signature.bytes.size());
  return signature;
}

}  // namespace skerry
