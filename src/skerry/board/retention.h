// What of a board stays and why, as a pure function of what is there: no clock, no store.
#ifndef SKERRY_BOARD_RETENTION_H_
#define SKERRY_BOARD_RETENTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/board/head.h"
#include "skerry/board/lease.h"
#include "skerry/board/manifest.h"
#include "skerry/board/names.h"

namespace skerry {

struct StoredManifest {
  Manifest manifest;
  Digest sha256;
};

// An anchor whose document is there.
struct StoredAnchor {
  std::vector<std::string> keys;  // the document's and those of its objects on the board
  uint64_t bytes = 0;             // of them
  std::string missing;            // a key that is not there; empty when the anchor is complete
};

// A run as gc finds it: first its head was read, then its keys, so what the head names is among them.
struct StoredRun {
  Head head;
  std::map<Version, StoredManifest> manifests;  // as readers find them: what the head names, aliases before it
  std::map<std::string, StoredAnchor> anchors;  // by the document's key; those that some manifest names
  std::vector<Lease> leases;
  std::vector<std::string> keys;   // everything below versions/ and anchors/, sorted
  std::vector<std::string> notes;  // for people
};
using StoredBoard = std::map<RunId, StoredRun>;

struct RetentionPolicy {
  uint64_t keep_versions = 100;  // the last so many, from 1
};

struct GoingKey {
  std::string key;
  std::string why;
};

struct Retention {
  std::map<Version, std::string> versions;  // that stay, and for whom
  std::map<Version, std::string> anchors;
  uint64_t kept_bytes = 0;     // of what the kept versions and anchors name in this run
  std::vector<GoingKey> goes;  // in the order in which it may go: manifests first, so that nobody plans over the rest
  std::string problem;         // why nothing of this run may go; mostly empty
  std::vector<std::string> notes;  // what else somebody should know
};

// What stays:
//   - versions: the head; the last `keep_versions`; those of live leases; those that a kept version 0 was forked from;
//     and for each of them the versions on an unbroken way from a complete anchor that its manifest names (or from the
//     origin of its fork). A version that is gone already is not asked for.
//   - anchors of kept versions that a kept manifest names.
//   - what kept manifests and anchors name, wherever it lies.
//   - what may still get a name: below versions that the head has not reached, and anchors after the newest one that
//   the
//     head's manifest names (see the rules for publishers in docs/board-protocol.md).
// Everything else below versions/ and anchors/ goes. Where no way leads to a run's head, nothing of that run goes.
std::map<RunId, Retention> DecideRetention(const StoredBoard& board, const RetentionPolicy& policy, uint64_t now);

// The version in the name of a folder: "runs/r/versions/000000007/" and what lies below it, with VersionPrefix or
// AnchorPrefix as `is_anchor` says.
struct KeyPlace {
  bool is_anchor = false;
  Version version;
  std::string_view name;  // the rest of the key
};
// nullopt for keys that lie elsewhere.
std::optional<KeyPlace> PlaceOf(const RunId& run, std::string_view key);

}  // namespace skerry

#endif  // SKERRY_BOARD_RETENTION_H_
