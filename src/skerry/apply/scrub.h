// Looks in the background whether a checkpoint's bytes still are what its state says.
#ifndef SKERRY_APPLY_SCRUB_H_
#define SKERRY_APPLY_SCRUB_H_

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "skerry/apply/state.h"
#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/manifest.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// How many bytes are due at a rate; the caller owns the time.
class ScrubPace {
 public:
  explicit ScrubPace(uint64_t bytes_per_second) : rate_(bytes_per_second) {}
  // Since the last call, at most a second's worth: what was missed is not made up for. 0 at the first call.
  uint64_t Due(std::chrono::steady_clock::time_point now);

 private:
  const uint64_t rate_;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

struct ScrubStep {
  uint64_t bytes = 0;       // read by this call
  bool round_done = false;  // all tensors and side files have been seen since the last time that this was true
};

// Walks over tensors and side files, again and again. Takes no lock and stops no writer: a tensor that a move changed
// while it was read is begun again, and after a few times read in one go, at whatever rate, so that a large tensor of a
// checkpoint that moves often is seen too. One thread.
class Scrubber {
 public:
  Scrubber(Path directory, Path state_directory);

  // What the manifest of the version labelled so says about side files. Without it, or when the checkpoint moves on, a
  // side file is compared with what it was when this scrubber saw that version first.
  void ExpectSideFiles(const VersionLabel& label, const std::vector<SideFile>& files);

  // Reads on, `bytes` or a little more (side files are read whole). kCorrupt names tensor, file and both digests, once
  // a round; the next call goes on behind it. kUnavailable: an apply is at work or was interrupted; kNotFound: there is
  // no checkpoint with a state. Both are no finding.
  Result<ScrubStep> ScrubSome(uint64_t bytes);

  uint64_t rounds() const { return rounds_; }

 private:
  // One version of the files, opened; replaced when the state file is another one.
  struct Subject;
  Status Open();
  void GoOn(const Subject& last, Subject& next);
  bool Unmoved() const;
  Status ReadTensor(uint64_t bytes, ScrubStep& step);
  Status ReadSideFile(ScrubStep& step);

  Path directory_, state_directory_;
  std::shared_ptr<Subject> subject_;
  VersionLabel expected_label_;
  std::map<std::string, Digest> expected_;  // SHA-256 of side files
  uint64_t rounds_ = 0;
  int restarts_ = 0;  // of the tensor at hand
};

}  // namespace skerry

#endif  // SKERRY_APPLY_SCRUB_H_
