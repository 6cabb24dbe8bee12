#include "skerry/base/signing.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "skerry/base/hash.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// RFC 8032, section 7.1.
struct Vector {
  std::string_view name, seed, public_key, message, signature;
};
constexpr Vector kVectors[] = {
    {"TEST 1", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246"
     "5"
     "5141438e7a100b"},
    {"TEST 2", "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb"
     "0"
     "0d291612bb0c00"},
    {"TEST 3", "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc"
     "0"
     "27beceea1ec40a"},
    {"TEST SHA(abc)", "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
     "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2"
     "a"
     "9ac94fa54ca49f",
     "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad"
     "9"
     "bef1177331a704"},
};

PrivateKey KeyFromSeed(std::string_view hex) {
  const Bytes seed = Must(FromHex(hex));
  return PrivateKey::FromSeed(std::span<const std::byte, PrivateKey::kSeedSize>(seed));
}
PrivateKey SomeKey() { return KeyFromSeed(kVectors[0].seed); }
SecretBytes Secret(std::string_view text) { return SecretBytes(ToBytes(AsBytes(text))); }

TEST(Signing, AgreesWithTheVectorsOfRfc8032) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.name);
    const PrivateKey key = KeyFromSeed(vector.seed);
    const Bytes message = Must(FromHex(vector.message));
    EXPECT_EQ(ToHex(key.public_key().bytes), vector.public_key);
    EXPECT_EQ(key.Sign(message).Hex(), vector.signature);
    EXPECT_TRUE(key.public_key().Verifies(message, Must(Signature::FromHex(vector.signature))));
  }
}

TEST(Signing, RefusesEveryChangedBitOfMessageSignatureAndKey) {
  const PrivateKey key = SomeKey();
  const Bytes message = ToBytes(AsBytes("a short message"));
  const Signature signature = key.Sign(message);
  ASSERT_TRUE(key.public_key().Verifies(message, signature));
  for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
    Bytes changed = message;
    changed[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(key.public_key().Verifies(changed, signature)) << "message bit " << bit;
  }
  for (size_t bit = 0; bit < 8 * Signature::kSize; ++bit) {
    Signature changed = signature;
    changed.bytes[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(key.public_key().Verifies(message, changed)) << "signature bit " << bit;
  }
  for (size_t bit = 0; bit < 8 * PublicKey::kSize; ++bit) {
    PublicKey changed = key.public_key();
    changed.bytes[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(changed.Verifies(message, signature)) << "key bit " << bit;
  }
  EXPECT_FALSE(key.public_key().Verifies({}, signature));
}

// s + L in place of s: as good by the equation alone, but RFC 8032 (5.1.7) wants s < L, so that nobody can make a
// second signature from one.
TEST(Signing, RefusesASecondFormOfASignature) {
  const PrivateKey key = SomeKey();
  Signature signature = key.Sign({});
  const Bytes order = Must(FromHex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010"));
  int carry = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const int sum = std::to_integer<int>(signature.bytes[32 + i]) + std::to_integer<int>(order[i]) + carry;
    signature.bytes[32 + i] = static_cast<std::byte>(sum & 0xFF);
    carry = sum >> 8;
  }
  ASSERT_EQ(carry, 0);
  EXPECT_FALSE(key.public_key().Verifies({}, signature));
}

TEST(Signing, MakesAnotherKeyEachTime) {
  const PrivateKey a = Must(PrivateKey::Generate()), b = Must(PrivateKey::Generate());
  EXPECT_NE(a.public_key(), b.public_key());
  EXPECT_TRUE(a.public_key().Verifies(AsBytes("x"), a.Sign(AsBytes("x"))));
  EXPECT_FALSE(b.public_key().Verifies(AsBytes("x"), a.Sign(AsBytes("x"))));
}

TEST(Signing, APublicKeyComesBackFromItsText) {
  const PublicKey key = SomeKey().public_key();
  EXPECT_EQ(key.Text(), "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(Must(PublicKey::FromText(key.Text())), key);
  EXPECT_EQ(key.Id(), Sha256::Of(key.bytes).Hex().substr(0, 16));
}

TEST(Signing, TextHasOneSpelling) {
  std::string upper = SomeKey().public_key().Text();
  upper.back() = 'A';
  const std::string good = SomeKey().public_key().Text();
  for (const std::string& wrong :
       {upper, std::string(), good.substr(8), good + "0", good + "00", good.substr(0, good.size() - 2), " " + good,
        good + "\n", "ED25519:" + good.substr(8), good.substr(0, good.size() - 1) + "g"}) {
    EXPECT_THAT(PublicKey::FromText(wrong), Fails(Code::kInvalid, HasSubstr("64 lower-case"))) << wrong;
  }
  const std::string signature(kVectors[0].signature);
  EXPECT_EQ(Must(Signature::FromHex(signature)).Hex(), signature);
  for (const std::string& wrong : {std::string(), signature + "00", signature.substr(2), "E" + signature.substr(1)}) {
    EXPECT_THAT(Signature::FromHex(wrong), Fails(Code::kInvalid, HasSubstr("128 lower-case"))) << wrong;
  }
}

TEST(Signing, KeysComeBackFromPem) {
  const PrivateKey key = SomeKey();
  const SecretBytes pem = key.ToPem();
  EXPECT_THAT(ToString(pem.span()), StartsWith("-----BEGIN PRIVATE KEY-----\n"));
  EXPECT_EQ(Must(PrivateKey::FromPem(pem)).Sign(AsBytes("x")), key.Sign(AsBytes("x")));
  EXPECT_THAT(key.public_key().Pem(), StartsWith("-----BEGIN PUBLIC KEY-----\n"));
  EXPECT_EQ(Must(PublicKey::FromPem(key.public_key().Pem())), key.public_key());
}

// Made for this test by `openssl genpkey`; they guard nothing.
constexpr std::string_view kForeignPrivate =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIFkJgEQ8AZ9hccPbCG3zeIwYUiigQM9d2OkP8y77hPB8\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view kForeignPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAVV/vqUzB92P2LpWb++smYDH9PZZLiJAX0knrVfNlSpg=\n"
    "-----END PUBLIC KEY-----\n";
constexpr std::string_view kX25519 =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VuBCIEIFDZD44Up5bRp9zP692FpR6qDAQknHL+eqhX3vzMPk9R\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view kEncrypted =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhywJR2HzfQ8AICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEEAeMcX71EZ45mKHwT2Y0ZO4EQBrL\n"
    "1ecSBq/s2vg/0SiCI6nG7Cj27dly+ZVkeQ8DIgWMLLTg7dV4mcBzOQsFyOHf/7+K\n"
    "OCx9wr3AdFLoTJTWSZk=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";

TEST(Signing, ReadsKeysOfTheOpensslProgram) {
  const PrivateKey key = Must(PrivateKey::FromPem(Secret(kForeignPrivate)));
  EXPECT_EQ(key.public_key(), Must(PublicKey::FromPem(kForeignPublic)));
}

TEST(Signing, RefusesWhatIsNoKeyForEd25519AndShowsNothingOfIt) {
  const std::string secret(kForeignPrivate.substr(28, 64));
  EXPECT_THAT(PrivateKey::FromPem(Secret(kX25519)), Fails(Code::kInvalid, HasSubstr("X25519")));
  EXPECT_THAT(PrivateKey::FromPem(Secret(kEncrypted)), Fails(Code::kInvalid, HasSubstr("without a passphrase")));
  EXPECT_THAT(PrivateKey::FromPem(Secret(kForeignPublic)), Fails(Code::kInvalid, HasSubstr("no private key")));
  EXPECT_THAT(PublicKey::FromPem(kForeignPrivate),
              Fails(Code::kInvalid, testing::AllOf(HasSubstr("no public key"), Not(HasSubstr(secret)))));
  for (size_t size = 0; size < kForeignPrivate.size() - 2; ++size) {
    EXPECT_FALSE(PrivateKey::FromPem(Secret(kForeignPrivate.substr(0, size)))) << size;
  }
}

// Nothing can print it by accident.
template <typename T>
concept Streams = requires(std::ostream& out, const T& value) { out << value; };
static_assert(!Streams<PrivateKey> && !Streams<SecretBytes>);
static_assert(!fmt::is_formattable<PrivateKey>::value && !fmt::is_formattable<SecretBytes>::value);

}  // namespace
}  // namespace skerry
