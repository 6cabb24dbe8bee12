// The board: versions of runs over any Store, with every rule about what may follow what. docs/board-protocol.md is the
// normative text.
#ifndef SKERRY_BOARD_BOARD_H_
#define SKERRY_BOARD_BOARD_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skerry/base/signing.h"
#include "skerry/board/anchor.h"
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

// A manifest that is durable on the board under its own SHA-256. Only Board makes one.
class StagedManifest {
 public:
  const Manifest& manifest() const { return manifest_; }
  const ManifestRef& ref() const { return ref_; }

 private:
  friend class Board;
  StagedManifest(Manifest manifest, ManifestRef ref) : manifest_(std::move(manifest)), ref_(std::move(ref)) {}
  Manifest manifest_;
  ManifestRef ref_;
};

// A head whose version will be found after the head has moved on: its manifest is at the alias. Only Board makes one.
class SettledHead {
 public:
  const Head& head() const { return at_.head; }
  const Generation& generation() const { return at_.generation; }

 private:
  friend class Board;
  explicit SettledHead(HeadAt at) : at_(std::move(at)) {}
  HeadAt at_;
};

// Limits on untrusted bytes.
inline constexpr uint64_t kMaxLayoutBytes = 256 << 20;  // unpacked
inline constexpr uint64_t kMaxPackedLayoutBytes = 64 << 20;

// Holds no state but the store, the board's id and keys: copies are cheap, and all methods that are const may be called
// from several threads and processes at once. Every object that is read is checked against the name or digest by which
// it was found.
class Board {
 public:
  // Makes the board if there is none, with `id` (else a random one), after a quick probe of the store's conditional
  // writes; opens the one that is there otherwise.
  static Result<Board> Create(std::shared_ptr<Store> store, std::string id = "");
  // kNotFound, saying how to make one, when there is none.
  static Result<Board> Open(std::shared_ptr<Store> store);
  // Reads nothing: for who has kept what another Board said about itself. (It never changes, unless somebody removes
  // the board and makes another in its place.)
  static Board Known(std::shared_ptr<Store> store, BoardInfo info) { return Board(std::move(store), std::move(info)); }

  // Every manifest that this board reads from here on, and copies made of it, must be signed by one of the keys; what
  // CheckSignature (manifest_signature.h) says of others is the error. No keys: signatures are not looked at.
  void Trust(std::vector<PublicKey> keys) { trusted_ = std::move(keys); }
  // Signs every manifest that is staged from here on.
  void SignWith(PrivateKey key) { signing_key_ = std::move(key); }
  const std::vector<PublicKey>& trusted() const { return trusted_; }
  // Whether this board would accept a manifest that was kept elsewhere.
  bool Trusts(const Manifest& manifest) const;

  const BoardInfo& info() const { return info_; }
  const std::string& id() const { return info_.id; }
  // What the store's conditional writes are known to be; nullopt on boards that nobody probed.
  std::optional<WriteSafety> writes() const { return info_.writes; }
  Store& store() const { return *store_; }
  // "board <id> in directory /mnt/board", for messages.
  std::string Describe() const;

  // Runs that have a head, sorted. Lists the store: for people.
  Result<std::vector<RunId>> Runs() const;
  // A run is described once: the same description again is a no-op, another is kConflict.
  Status PutRun(const RunInfo& info) const;
  Result<RunInfo> ReadRun(const RunId& run) const;

  // Of a further view of a run: as its readers see it. kNotFound names the run and the runs that exist, or its views;
  // kMismatch when the head there is of another run.
  Result<HeadAt> ReadHead(const RunId& run) const;

  // The manifest of a published version, checked to be of that run and version. kNotFound when the run is not at that
  // version yet; kUnavailable when the head's own manifest is missing (a replica that lags).
  Result<Manifest> ReadManifest(const RunId& run, Version version) const;
  // The same with a head that the caller has read: no version after it is looked for.
  Result<Manifest> ReadManifest(const Head& head, Version version) const;
  // The same for a version that some head of the run stood behind: nothing else is read.
  Result<Manifest> ReadSettledManifest(const RunId& run, Version version) const;
  // The manifest with this SHA-256, wherever it stands: whoever knows what it must be needs no head.
  Result<Manifest> ReadManifest(const RunId& run, Version version, const Digest& sha256) const;

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
  Result<StagedManifest> StageManifest(Manifest manifest) const;

  // Puts the manifest that the head names at its immutable alias, where it is found after head has moved on. `manifest`
  // is the head's, where the caller has it: then nothing is read.
  Result<SettledHead> Settle(HeadAt at, const Manifest* manifest = nullptr) const;

  // Whether `publisher` may move a head that stands at `now`, as far as the store's conditional writes decide that: so
  // that it is told before it has done the work. kConflict names the owner.
  Status MayTakeOver(const Head& now, const std::string& publisher) const;

  // Publishes: replaces the head `current` (nullopt: the run has none) by `next`, which names `manifest`.
  // Requires: sequence + 1, a fresh nonce, and
  //   - no head yet: version 0, sequence 1, epoch >= 1
  //   - the owner's epoch and publisher: the version after the current one
  //   - a higher epoch (taking over): the version after the current one, or the current one unchanged
  // It names the manifests of all further views (`views`), which are those that the run had from the first; so does
  // `manifest`.
  // kInvalid when `next` breaks these rules; kConflict, naming who has the head, when somebody else was faster or owns
  // the epoch; kUnavailable when it can't be known whether the head moved.
  Result<Generation> MoveHead(const std::optional<SettledHead>& current, const Head& next,
                              const StagedManifest& manifest, const std::vector<StagedManifest>& views = {}) const;

  // The document of an anchor, by which manifests name it.
  Result<AnchorRef> PutAnchor(const Anchor& anchor) const;
  // Checked to be of the version that the reference names in `run`.
  Result<Anchor> ReadAnchor(const RunId& run, const AnchorRef& anchor) const;

 private:
  Board(std::shared_ptr<Store> store, BoardInfo info) : store_(std::move(store)), info_(std::move(info)) {}

  Result<Bytes> ReadManifestBytes(const ManifestRef& manifest) const;
  // What `bytes`, found at `key`, say: a manifest of this version, signed by whom the board trusts.
  Result<Manifest> OpenManifest(ByteSpan bytes, const RunId& run, Version version, std::string_view key) const;
  Result<Generation> SettleFailedMove(const Error& error, const std::optional<SettledHead>& current,
                                      const Head& next) const;

  std::shared_ptr<Store> store_;
  BoardInfo info_;
  std::vector<PublicKey> trusted_;
  std::optional<PrivateKey> signing_key_;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_BOARD_H_
