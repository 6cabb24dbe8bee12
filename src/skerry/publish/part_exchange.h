// How several writers make one version: each puts its part and a receipt on the board, the first of them takes the
// receipts and finishes.
#ifndef SKERRY_PUBLISH_PART_EXCHANGE_H_
#define SKERRY_PUBLISH_PART_EXCHANGE_H_

#include <string>
#include <vector>

#include "skerry/board/board.h"
#include "skerry/board/part_receipt.h"
#include "skerry/publish/version_encoder.h"
#include "skerry/pull/fetch.h"

namespace skerry {

// One of several writers, who all run the same publish at the same time.
struct WriterOfMany {
  uint64_t index = 0;  // writer 0 finishes
  uint64_t of = 1;
  // The same for all writers of one version, and never used again: what a killed attempt left must not be taken for a
  // part of this one. A token (see docs/board-protocol.md, "JSON").
  std::string attempt;
  Patience patience{.limit = std::chrono::milliseconds(600'000), .sleep = {}};  // with the others
};

class PartExchange {
 public:
  PartExchange(const Board& board, const RunId& run, Version version, const Digest& base_manifest,
               const WriterOfMany& writer)
      : board_(board), run_(run), version_(version), base_(base_manifest), writer_(writer) {}

  // Puts the receipt of this writer's part, whose patch is on the board.
  Status Announce(const EncodedPart& part) const;
  // Writer 0: waits for the receipts of the others; fetches their patches to `spool_directory`. The model has `tensors`
  // tensors. kUnavailable names the writer that is missing.
  Result<std::vector<EncodedPart>> Collect(const Path& spool_directory, size_t tensors, Progress& progress) const;
  // The others: waits until the version is out, and returns its manifest. kConflict when another version took its
  // place.
  Result<Manifest> AwaitVersion() const;
  // Writer 0, once the version is out: the receipts have done their duty.
  void RemoveReceipts() const;

 private:
  Result<PartReceipt> ReadReceipt(uint64_t index) const;

  const Board& board_;
  const RunId& run_;
  const Version version_;
  const Digest base_;
  const WriterOfMany& writer_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_PART_EXCHANGE_H_
