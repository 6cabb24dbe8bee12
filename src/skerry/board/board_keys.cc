#include "skerry/board/board_keys.h"

#include <algorithm>
#include <cstdlib>

#include "skerry/base/key_file.h"

namespace skerry {
namespace {

constexpr const char* kTrustVariable = "SKERRY_TRUST_KEYS";

// Somebody may write "$(cat KEY)" where the file's name belongs: then the argument must not be shown.
Status RefuseKeyItself(const std::string& argument, std::string_view where) {
  if (argument.find("-----BEGIN") == std::string::npos) return {};
  return Fail(Code::kInvalid, "{} wants the name of a file, not what is in it", where);
}

Result<PublicKey> ReadTrustKey(const std::string& argument, std::string_view where) {
  SKERRY_TRY(RefuseKeyItself(argument, where));
  auto key = argument.starts_with("ed25519:") ? PublicKey::FromText(argument) : ReadPublicKeyFile(argument);
  if (!key) return Annotate(std::move(key).error(), where);
  return key;
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace

Status TrustKeys(Board& board, const std::vector<std::string>& trust_keys, const KeyArguments& called) {
  std::vector<std::string> arguments = trust_keys;
  std::string_view where = called.trust_keys;
  if (const char* variable = std::getenv(kTrustVariable); arguments.empty() && variable != nullptr) {
    where = kTrustVariable;
    arguments = SplitAtCommas(variable);
    // A variable that was to be filled and was not must not switch the check off.
    if (arguments.empty()) return Fail(Code::kInvalid, "{} is set, but names no key", where);
  }
  std::vector<PublicKey> keys;
  for (const std::string& argument : arguments) {
    SKERRY_ASSIGN(keys.emplace_back(), ReadTrustKey(argument, where));
  }
  board.Trust(std::move(keys));
  return {};
}

Result<std::string> SignVersions(Board& board, const std::string& sign_key, const KeyArguments& called) {
  const std::vector<PublicKey>& trusted = board.trusted();
  if (sign_key.empty()) {
    if (trusted.empty()) return std::string();
    return Fail(Code::kInvalid, "a version that is not signed would be refused by the keys trusted here: say {}",
                called.sign_key);
  }
  SKERRY_TRY(RefuseKeyItself(sign_key, called.sign_key));
  Result<PrivateKeyFile> file = ReadPrivateKeyFile(sign_key);
  if (!file) return Annotate(std::move(file).error(), called.sign_key);
  const PublicKey& key = file->key.public_key();
  if (!trusted.empty() && std::find(trusted.begin(), trusted.end(), key) == trusted.end()) {
    return Fail(Code::kInvalid, "{} {}: its public key {} is none of those trusted here", called.sign_key, sign_key,
                key.Text());
  }
  board.SignWith(std::move(file->key));
  return std::move(file->warning);
}

}  // namespace skerry
