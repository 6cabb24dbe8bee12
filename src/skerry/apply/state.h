// What a rebuilt checkpoint knows about itself: `.skerry/state.json` beside its files.
#ifndef SKERRY_APPLY_STATE_H_
#define SKERRY_APPLY_STATE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// Which version of which run; empty for a checkpoint that never was on a board.
struct VersionLabel {
  std::string run;
  std::optional<Version> version;

  std::string Describe() const;  // "grpo-1 version 7"
  bool operator==(const VersionLabel&) const = default;
};

struct CheckpointState {
  VersionLabel label;
  Digest layout, model;
  std::vector<RunningDigest> tensors;  // in layout order

  Bytes Serialize() const;
  static Result<CheckpointState> Parse(ByteSpan json);
};

inline constexpr std::string_view kStateName = "state.json";  // in the state directory

// Where a checkpoint's state, lock and journal are unless the caller says otherwise.
Path DefaultStateDirectory(const Path& checkpoint);

// nullopt where there is none.
Result<std::optional<CheckpointState>> ReadState(const Path& state_directory);
// Replaces it in one step, durably.
Status WriteState(const Path& state_directory, const CheckpointState& state);

}  // namespace skerry

#endif  // SKERRY_APPLY_STATE_H_
