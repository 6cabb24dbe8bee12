// A board as Python holds it.
#ifndef SKERRY_PYTHON_NATIVE_HELD_BOARD_H_
#define SKERRY_PYTHON_NATIVE_HELD_BOARD_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/board/board.h"

// A board by its name, with the keys of its user; opened when it is first needed. Thread-safe.
class HeldBoard {
 public:
  // Asks no server anything, but finds what is wrong with the arguments (kInvalid, naming the argument). `sign_key`: a
  // file; empty: none.
  static skerry::Result<std::unique_ptr<HeldBoard>> Make(std::string name, std::string sign_key,
                                                         std::vector<std::string> trust_keys);

  // `sign`: for a caller who will write versions. kNotFound where there is none.
  skerry::Result<skerry::Board> Open(bool sign = false);
  // Makes it where it is missing; for a caller who will write versions.
  skerry::Result<skerry::Board> Create();

 private:
  skerry::Result<skerry::Board> WithKeys(skerry::Board board, bool sign) const;
  skerry::Status SetKeys(skerry::Board& board, bool sign) const;

  std::string name_, sign_key_;
  std::vector<std::string> trust_keys_;
  std::mutex mutex_;
  std::optional<skerry::Board> board_;  // guarded by mutex_; without keys
};

// Raise Invalid, naming the argument, for what can't be one.
skerry::RunId RunOf(const std::string& run, std::string_view argument = "run");
std::optional<skerry::Version> VersionOf(std::optional<int64_t> version);

#endif  // SKERRY_PYTHON_NATIVE_HELD_BOARD_H_
