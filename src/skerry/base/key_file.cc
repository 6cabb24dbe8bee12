#include "skerry/base/key_file.h"

#include <sys/stat.h>

namespace skerry {
namespace {

constexpr std::string_view kPemStart = "-----BEGIN ";
constexpr std::string_view kPrivateMark = "PRIVATE KEY-----";

Status WriteNew(const Path& path, unsigned mode, ByteSpan bytes) {
  SKERRY_ASSIGN(File file, File::CreateNew(path, mode));
  SKERRY_TRY(file.Append(bytes));
  SKERRY_TRY(file.Sync());
  return SyncDirectory(path.parent_path());
}

Status RequireMissing(const Path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return {};
  return Fail(Code::kConflict, "{} is there already: a key is never overwritten", path.string());
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Path PublicKeyPath(const Path& private_key) { return private_key.string() + ".pub"; }

Status WriteKeyPair(const Path& path, const PrivateKey& key) {
  const Path public_path = PublicKeyPath(path);
  SKERRY_TRY(RequireMissing(path));
  SKERRY_TRY(RequireMissing(public_path));
  SKERRY_TRY(WriteNew(path, 0600, key.ToPem().span()));
  return WriteNew(public_path, 0644, AsBytes(key.public_key().Pem()));
}

Result<PrivateKeyFile> ReadPrivateKeyFile(const Path& path) {
  SKERRY_ASSIGN(Bytes bytes, ReadFile(path, kMaxKeyFileBytes));
  const SecretBytes pem(std::move(bytes));
  Result<PrivateKey> key = PrivateKey::FromPem(pem);
  if (!key) return Annotate(std::move(key).error(), path.string());
  PrivateKeyFile file{.key = *std::move(key), .warning = {}};
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    file.warning = fmt::format("the private key {} may be used by others than its owner (mode {:04o}): chmod 600 it",
                               path.string(), info.st_mode & 07777);
  }
  return file;
}

Result<PublicKey> ReadPublicKeyFile(const Path& path) {
  SKERRY_ASSIGN(Bytes bytes, ReadFile(path, kMaxKeyFileBytes));
  const SecretBytes content(std::move(bytes));  // somebody may name the wrong one of two files
  const std::string_view text = AsText(content.span());
  if (text.find(kPrivateMark) != std::string_view::npos) {
    return Fail(Code::kInvalid, "{} holds a private key: name the public one, {}", path.string(),
                PublicKeyPath(path).string());
  }
  const bool is_pem = text.find(kPemStart) != std::string_view::npos;
  Result<PublicKey> key = is_pem ? PublicKey::FromPem(text) : PublicKey::FromText(Trimmed(text));
  if (!key) return Annotate(std::move(key).error(), path.string());
  return key;
}

}  // namespace skerry
