// The rank that releases the versions whose parts all ranks made (shard_writer.h).
#ifndef SKERRY_PUBLISH_SHARD_RELEASE_H_
#define SKERRY_PUBLISH_SHARD_RELEASE_H_

#include <memory>
#include <optional>
#include <vector>

#include "skerry/base/clock.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/publish/publisher.h"

namespace skerry {

// Holds the state directory's lock: of the publisher, not of a rank. Not thread-safe.
class ShardRelease {
 public:
  static Result<ShardRelease> Open(const Board& board, const RunId& run, const Path& state_directory);
  ShardRelease(ShardRelease&&) noexcept;
  ~ShardRelease();

  // The head that the next version follows; nothing is written. kConflict for who has been replaced as the run's
  // publisher, unless it `takes_over`.
  Result<Head> Begin(bool takes_over, const Clock& clock);
  // Of that head's version; read from the board where it is another one than last time.
  Result<Layout> ReadLayout();

  // Releases the version after the head of Begin from the ranks' receipts, in any order; empty ones, of ranks without
  // boxes, are passed over. Where nothing differs nothing is published, unless `allow_empty`.
  //   1. the parts must be all of the model, and the bytes that they were compared with the head's: kCorrupt or
  //   kInvalid,
  //      naming a tensor, otherwise
  //   2. store digests                 crash: objects that nobody names
  //   3. stage the manifest            crash: a staged manifest that nobody names
  //   4. move the head by compare-and-swap: kConflict when somebody else has
  Result<PublishReceipt> Finish(const std::vector<Bytes>& receipts, std::optional<int64_t> step, bool allow_empty);

 private:
  struct Impl;
  explicit ShardRelease(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_SHARD_RELEASE_H_
