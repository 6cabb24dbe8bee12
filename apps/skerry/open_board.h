// Opening the board that a command names, with the keys that it is given.
#ifndef SKERRY_APPS_SKERRY_OPEN_BOARD_H_
#define SKERRY_APPS_SKERRY_OPEN_BOARD_H_

#include <string>
#include <vector>

#include "skerry/board/board.h"
#include "skerry/board/store_url.h"

namespace skerry {

// What --trust-key and --sign-key are, wherever they are.
inline constexpr const char* kTrustKeyHelp =
    "Public key, as a file or as text (ed25519:…), whose signature a version must have; several: one of them. Without "
    "it, those in SKERRY_TRUST_KEYS, separated by commas";
inline constexpr const char* kSignKeyHelp = "File of the private key that signs the version (skerry keygen)";

// `trust_keys`: what was given as --trust-key; if nothing was, the environment's.
Result<Board> OpenBoard(const std::string& name, const std::vector<std::string>& trust_keys = {});

// For a board that was opened otherwise.
Status TrustKeys(Board& board, const std::vector<std::string>& trust_keys);

// `sign_key`: what was given as --sign-key, or empty. kInvalid, before any work is done, when the board would not read
// what is signed so (TrustKeys comes first).
Status SignVersions(Board& board, const std::string& sign_key);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_OPEN_BOARD_H_
