// How far a store's conditional writes can be trusted: what a probe finds (probe.h) and board.json records.
#ifndef SKERRY_BOARD_WRITE_SAFETY_H_
#define SKERRY_BOARD_WRITE_SAFETY_H_

#include <optional>
#include <string_view>

namespace skerry {

enum class WriteSafety {
  kFull,        // "full": every create and every swap has one winner
  kCreateOnly,  // "create-only": creating is safe; replacing ignores its condition, or is refused
  kNone,        // "none": conditions are ignored, or refused
  kUnsafe,      // "unsafe": conditions hold for one writer at a time, but not in a race
};

// The name in board.json and in messages.
std::string_view NameOf(WriteSafety safety);
std::optional<WriteSafety> WriteSafetyFromName(std::string_view name);

// What publishers may do on such a store, as half a sentence for people.
std::string_view WhatFollows(WriteSafety safety);

}  // namespace skerry

#endif  // SKERRY_BOARD_WRITE_SAFETY_H_
