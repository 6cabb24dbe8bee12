// Signatures over manifests: what is signed, and whether somebody did it who is trusted. The norm is
// docs/board-protocol.md, "Signatures".
#ifndef SKERRY_BOARD_MANIFEST_SIGNATURE_H_
#define SKERRY_BOARD_MANIFEST_SIGNATURE_H_

#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/base/signing.h"
#include "skerry/board/manifest.h"

namespace skerry {

// The manifest with the key's signature over all the rest, in place of any signature that it had.
Result<Manifest> SignManifest(Manifest manifest, const PrivateKey& key);

// Whether one of the keys signed `bytes`, which ParseManifest read as `manifest`: every byte of them, fields that it
// passed over too. Errors name run and version. kMismatch: not signed, or by another key. kCorrupt: the signature does
// not match, or the bytes are not the canonical form, over which alone a signature says something.
Status CheckSignature(const Manifest& manifest, ByteSpan bytes, const std::vector<PublicKey>& trusted);

}  // namespace skerry

#endif  // SKERRY_BOARD_MANIFEST_SIGNATURE_H_
