// The keys with which a caller wants a board to be read and written.
#ifndef SKERRY_BOARD_BOARD_KEYS_H_
#define SKERRY_BOARD_BOARD_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

#include "skerry/board/board.h"

namespace skerry {

// What messages call the arguments: an option of the program, a parameter of a function.
struct KeyArguments {
  std::string_view trust_keys, sign_key;
};

// Makes the board trust `trust_keys`, each a file or a key as text ("ed25519:…"); where there are none, those that
// SKERRY_TRUST_KEYS names, separated by commas. kInvalid, kNotFound and so on name the argument.
Status TrustKeys(Board& board, const std::vector<std::string>& trust_keys, const KeyArguments& called);

// Makes the board sign with the private key in the file `sign_key`; empty: with none. Returns a warning, mostly empty.
// kInvalid, before any work is done, when the board would not read what is signed so (TrustKeys comes first).
Result<std::string> SignVersions(Board& board, const std::string& sign_key, const KeyArguments& called);

}  // namespace skerry

#endif  // SKERRY_BOARD_BOARD_KEYS_H_
