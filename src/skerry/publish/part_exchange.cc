#include "skerry/publish/part_exchange.h"

#include "skerry/apply/patch_set.h"
#include "skerry/board/keys.h"

namespace skerry {

Status PartExchange::Announce(const EncodedPart& part) const {
  PatchPart made{.object = part.object, .tensors = RangesOf(part.tensors)};
  const PartReceipt receipt{.run = run_,
                            .version = version_,
                            .base = base_,
                            .index = writer_.index,
                            .of = writer_.of,
                            .part = std::move(made),
                            .base_digests = part.receipt.base_digests,
                            .target_digests = part.receipt.target_digests,
                            .changed = part.receipt.info.changed,
                            .tensors_changed = part.receipt.tensors_changed,
                            .side_files_changed = part.receipt.side_files_changed};
  SKERRY_ASSIGN(const Bytes bytes, SerializePartReceipt(receipt));
  SKERRY_ASSIGN(const std::string key, PartReceiptKey(run_, version_, writer_.attempt, writer_.index, writer_.of));
  return board_.PutObject(key, MemorySource(bytes));
}

Result<PartReceipt> PartExchange::ReadReceipt(uint64_t index) const {
  SKERRY_ASSIGN(const std::string key, PartReceiptKey(run_, version_, writer_.attempt, index, writer_.of));
  SKERRY_ASSIGN(const Object object, board_.store().Get(key, kMaxPartReceiptBytes));
  SKERRY_ASSIGN(PartReceipt receipt, ParsePartReceipt(object.bytes));
  if (receipt.run != run_ || receipt.version != version_ || receipt.base != base_) {
    return Fail(Code::kMismatch, "{} is about run {} version {} over manifest {}, not run {} version {} over {}", key,
                receipt.run, receipt.version, receipt.base.Short(), run_, version_, base_.Short());
  }
  return receipt;
}

Result<std::vector<EncodedPart>> PartExchange::Collect(const Path& spool_directory, size_t tensors,
                                                       Progress& progress) const {
  std::vector<EncodedPart> parts;
  for (uint64_t index = 1; index < writer_.of; ++index) {
    EncodedPart part;
    SKERRY_TRY(writer_.patience.Retry(fmt::format("part {} of {} of version {}", index, writer_.of, version_),
                                      [&]() -> Status {
                                        SKERRY_ASSIGN(const PartReceipt receipt, ReadReceipt(index));
                                        SKERRY_ASSIGN(part.tensors, TensorsOfPart(receipt.part, tensors));
                                        part.object = receipt.part.object;
                                        part.receipt.base_digests = receipt.base_digests;
                                        part.receipt.target_digests = receipt.target_digests;
                                        part.receipt.info.changed = receipt.changed;
                                        part.receipt.tensors_changed = receipt.tensors_changed;
                                        part.receipt.side_files_changed = receipt.side_files_changed;
                                        return {};
                                      }));
    part.spool = spool_directory / fmt::format("spool-{:03}.skerry", index);
    SKERRY_TRY(FetchObject(board_, part.object, part.spool, {.patience = writer_.patience}, progress));
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<Manifest> PartExchange::AwaitVersion() const {
  std::optional<Manifest> found;
  SKERRY_TRY(writer_.patience.Retry(fmt::format("version {} of run {}", version_, run_), [&]() -> Status {
    SKERRY_ASSIGN(const HeadAt at, board_.ReadHead(run_));
    if (at.head.version < version_) {
      return Fail(Code::kUnavailable, "the head is at version {}: the first writer has not finished", at.head.version);
    }
    SKERRY_ASSIGN(found, board_.ReadManifest(at.head, version_));
    return {};
  }));
  if (found->parent == base_) return *std::move(found);
  return Fail(Code::kConflict, "run {}: another version {} was published meanwhile", run_, version_);
}

void PartExchange::RemoveReceipts() const {
  for (uint64_t index = 0; index < writer_.of; ++index) {
    const auto key = PartReceiptKey(run_, version_, writer_.attempt, index, writer_.of);
    // What stays is swept by gc.
    if (key) [[maybe_unused]]
      const Status deleted = board_.store().Delete(*key);
  }
}

}  // namespace skerry
