// Keys of signing.h as files. Private keys are PKCS#8 in PEM, public ones PEM too, as `openssl pkey` reads and writes
// them.
#ifndef SKERRY_BASE_KEY_FILE_H_
#define SKERRY_BASE_KEY_FILE_H_

#include <string>

#include "skerry/base/file.h"
#include "skerry/base/signing.h"

namespace skerry {

inline constexpr uint64_t kMaxKeyFileBytes = 16 << 10;

// "KEY.pub" beside "KEY".
Path PublicKeyPath(const Path& private_key);

// Writes a new key pair to `path` (mode 0600) and PublicKeyPath(path); both are durable on return. kConflict when one
// of them is there: a key is never overwritten.
//   1. the private file   crash: it may be there in part; the public one is not, so nobody was told to trust it
//   2. the public file    crash: it may be there in part; `openssl pkey -in KEY -pubout` prints it again
Status WriteKeyPair(const Path& path, const PrivateKey& key);

struct PrivateKeyFile {
  PrivateKey key;
  std::string warning;  // that others may read the file, where they may
};

// Errors name the file and never show what is in it.
Result<PrivateKeyFile> ReadPrivateKeyFile(const Path& path);

// A file in PEM, or one that holds the text form (PublicKey::Text) and nothing else but white space around it.
Result<PublicKey> ReadPublicKeyFile(const Path& path);

}  // namespace skerry

#endif  // SKERRY_BASE_KEY_FILE_H_
