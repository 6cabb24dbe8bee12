// Every key of a board, in one place; docs/board-protocol.md is the normative list.
#ifndef SKERRY_BOARD_KEYS_H_
#define SKERRY_BOARD_KEYS_H_

#include <string>
#include <string_view>

#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"

namespace skerry {

inline constexpr size_t kMaxKeySize = 1024;
// Leaves room in a directory entry for the names of temporary and lock files.
inline constexpr size_t kMaxKeyComponentSize = 240;

// board.json
std::string BoardKey();
// probe/<token>/: what a probe of the store writes and removes
std::string ProbePrefix(std::string_view token);
// runs/
std::string RunsPrefix();
// runs/<run>/, or runs/<run>/views/<view>/: everything of a run, or of a further view of one. Below, "runs/<run>/"
// stands for either, but for the head.
std::string RunPrefix(const RunId& run);
// runs/<run>/run.json
std::string RunKey(const RunId& run);
// runs/<run>/head: the only mutable object, of all views of a run
std::string HeadKey(const RunId& run);
// runs/<run>/layouts/<digest>.json.zst
std::string LayoutKey(const RunId& run, const Digest& layout);
// runs/<run>/versions/000000007/
std::string VersionPrefix(const RunId& run, Version version);
// runs/<run>/versions/000000007/manifest-<16 hex>.json: a manifest by its own SHA-256; what head names
std::string StagedManifestKey(const RunId& run, Version version, const Digest& manifest);
// runs/<run>/versions/000000007/manifest.json: the same bytes once head has named them
std::string ManifestKey(const RunId& run, Version version);
// runs/<run>/versions/000000007/delta-003-<16 hex>.skerry
std::string DeltaKey(const RunId& run, Version version, int part, const Digest& patch);
// runs/<run>/versions/000000064/skip-000000056-000-<16 hex>.skerry: from version 56
std::string SkipKey(const RunId& run, Version version, Version from, int part, const Digest& patch);
// runs/<run>/versions/000000007/digests-<16 hex>.bin
std::string TensorDigestsKey(const RunId& run, Version version, const Digest& digests);
// runs/<run>/versions/000000007/parts/<attempt>-003-of-008.json: what a writer says about its part
Result<std::string> PartReceiptKey(const RunId& run, Version version, std::string_view attempt, uint64_t index,
                                   uint64_t of);
// runs/<run>/anchors/000000040/
std::string AnchorPrefix(const RunId& run, Version version);
// runs/<run>/anchors/000000040/anchor-<16 hex>.json: the document that names the rest
std::string AnchorDocumentKey(const RunId& run, Version version, const Digest& document);
// runs/<run>/anchors/000000040/part-003-<16 hex>.skerry
std::string AnchorPartKey(const RunId& run, Version version, int part, const Digest& patch);
// runs/<run>/anchors/000000040/<16 hex>/<path in the checkpoint>, by the file's SHA-256, so that what an unpublished
// anchor left never stands in the way; kInvalid when such a key is not valid (a hidden file)
Result<std::string> AnchorFileKey(const RunId& run, Version version, const Digest& content, std::string_view path);

// runs/<run>/leases/
std::string LeasePrefix(const RunId& run);
// runs/<run>/leases/<reader>.json
std::string LeaseKey(const RunId& run, std::string_view reader);
// runs/<run>/gc.json: what gc is about to remove
std::string CollectMarkKey(const RunId& run);

// kInvalid unless `key` is relative UTF-8 of 1 to kMaxKeySize bytes without control characters, backslashes, and
// components that are empty, hidden (a leading '.': temporary and lock files, and '..') or too long.
Status ValidateKey(std::string_view key);

// The same for a path inside a checkpoint, where hidden files are allowed, '.' and '..' are not.
Status ValidateCheckpointPath(std::string_view path);

}  // namespace skerry

#endif  // SKERRY_BOARD_KEYS_H_
