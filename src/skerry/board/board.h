// The board: versions of runs over any Store, with every rule about what may follow what. docs/board-protocol.md is the
// normative text.
#ifndef SKERRY_BOARD_BOARD_H_
#define SKERRY_BOARD_BOARD_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/board/head.h"
#include "skerry/board/manifest.h"
#include "skerry/board/names.h"
#include "skerry/board/run_info.h"
#include "skerry/board/store.h"

namespace skerry {

// A head and the token with which it can be replaced.
struct HeadAt {
  Head head;
  Generation generation;
};

// Limits on untrusted bytes.
inline constexpr uint64_t kMaxLayoutBytes = 256 << 20;  // unpacked
inline constexpr uint64_t kMaxPackedLayoutBytes = 64 << 20;

// Holds no state but the store and the board's id: copies are cheap, and all methods may be called from several threads
// and processes at once. Every object that is read is checked against the name or digest by which it was found.
class Board {
 public:
  // Makes the board if there is none, with `id` (else a random one); opens the one that is there otherwise.
  static Result<Board> Create(std::shared_ptr<Store> store, std::string id = "");
  // kNotFound, saying how to make one, when there is none.
  static Result<Board> Open(std::shared_ptr<Store> store);

  const std::string& id() const { return info_.id; }
  Store& store() const { return *store_; }
  // "board <id> in directory /mnt/board", for messages.
  std::string Describe() const;

  // Runs that have a head, sorted. Lists the store: for people.
  Result<std::vector<RunId>> Runs() const;
  // A run is described once: the same description again is a no-op, another is kConflict.
  Status PutRun(const RunInfo& info) const;
  Result<RunInfo> ReadRun(const RunId& run) const;

  // kNotFound names the run and the runs that exist; kMismatch when the head there is of another run.
  Result<HeadAt> ReadHead(const RunId& run) const;

  // The manifest of a published version, checked to be of that run and version. kNotFound when the run is not at that
  // version yet; kUnavailable when the head's own manifest is missing (a replica that lags).
  Result<Manifest> ReadManifest(const RunId& run, Version version) const;
  // The same with a head that the caller has read: no version after it is looked for.
  Result<Manifest> ReadManifest(const Head& head, Version version) const;
  // The manifest of the version before, checked against the SHA-256 that `manifest` gives for its parent.
  Result<Manifest> ReadParent(const Manifest& manifest) const;

  // Immutable objects.
  Status PutObject(std::string_view key, const ByteSource& source) const;
  // The whole object; kCorrupt when size or SHA-256 differ or the size is over `limit`. Follows file:// URIs.
  Result<Bytes> ReadObject(const ObjectRef& object, uint64_t limit) const;
  // The local file that holds the object, unchecked, where there is one.
  std::optional<Path> LocalPath(const ObjectRef& object) const;

  // Returns the SHA-256 of `json`, by which ReadLayout finds it.
  Result<Digest> PutLayout(const RunId& run, ByteSpan json) const;
  Result<Bytes> ReadLayout(const RunId& run, const Digest& layout) const;

  // Makes the manifest durable under its own SHA-256; it is not published until head names it.
  Result<ManifestRef> StageManifest(const Manifest& manifest) const;

  // Publishes: replaces the head that `expected` describes (nullopt: the run has none) by `next`, whose manifest must
  // be staged. Requires: sequence + 1, a fresh nonce, and
  //   - no head yet: version 0, sequence 1, epoch >= 1
  //   - the owner's epoch and publisher: the version after the current one
  //   - a higher epoch (taking over): the version after the current one, or the current one unchanged
  // kInvalid when `next` breaks these rules; kConflict, naming who has the head, when somebody else was faster or owns
  // the epoch; kUnavailable when it can't be known whether the head moved.
  Result<Generation> MoveHead(const std::optional<Generation>& expected, const Head& next) const;

  // Puts the manifest that `head` names at its immutable alias, where it is found after head has moved on. Call it
  // after MoveHead, with the head that was moved; MoveHead mends what a crash before that left.
  Status PublishAlias(const Head& head) const;

 private:
  Board(std::shared_ptr<Store> store, BoardInfo info) : store_(std::move(store)), info_(std::move(info)) {}

  Result<Bytes> ReadManifestBytes(const ManifestRef& manifest) const;
  Result<Generation> SettleFailedMove(const Error& error, const std::optional<Generation>& expected,
                                      const Head& next) const;

  std::shared_ptr<Store> store_;
  BoardInfo info_;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_BOARD_H_
