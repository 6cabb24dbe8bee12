// What a version is and the ways that lead to it: the only thing a reader needs beside the objects themselves.
#ifndef SKERRY_BOARD_MANIFEST_H_
#define SKERRY_BOARD_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/base/signing.h"
#include "skerry/board/anchor.h"
#include "skerry/board/names.h"
#include "skerry/board/references.h"

namespace skerry {

// The feature of a manifest with an edge whose parts are about boxes of tensors (references.h).
inline constexpr std::string_view kBoxesFeature = "boxes";

// A file of the checkpoint that holds no tensors (config, tokenizer).
struct SideFile {
  std::string path;
  uint64_t size = 0;
  Digest sha256;
  bool operator==(const SideFile&) const = default;
};

// Patches that lead from an older version to this one; at least one part, even when nothing changed.
struct Edge {
  std::string kind = "delta";  // or "skip", over several versions; a reader passes over kinds that it does not know
  Version from;
  Digest base_model;  // model digest of `from`
  std::vector<PatchPart> parts;

  uint64_t bytes() const;
  bool is_boxed() const { return !parts.empty() && parts.front().boxed; }
  bool operator==(const Edge&) const = default;
};

struct ManifestStats {
  uint64_t elements = 0;
  uint64_t changed = 0;
  uint64_t tensors_changed = 0;
  uint64_t checkpoint_bytes = 0;
  uint64_t patch_bytes = 0;
  bool operator==(const ManifestStats&) const = default;
};

// The same version in a further view of the run, by the SHA-256 of its manifest.
struct ViewManifest {
  std::string view;
  Digest manifest;
  bool operator==(const ViewManifest&) const = default;
};

// Who vouches for a manifest (manifest_signature.h). Reading one checks its form only.
struct ManifestSignature {
  PublicKey key;
  Signature value;
  bool operator==(const ManifestSignature&) const = default;
};

struct Manifest {
  static constexpr uint64_t kFormat = 1;

  RunId run;
  Version version;
  std::optional<Digest> parent;  // SHA-256 of the manifest of the version before; none for version 0 only
  std::string time;              // for people
  std::optional<int64_t> step;   // the trainer's count, not negative
  Digest layout;
  Digest model;
  ObjectRef tensor_digests;
  std::vector<SideFile> side_files;
  std::vector<Edge> edges;
  std::vector<AnchorRef> anchors;  // at or before this version, newest first
  std::optional<ForkPoint> fork;   // of version 0 of a fork only: that version is this one
  ManifestStats stats;
  // Names of what a reader must understand to read this version right. Defined is kBoxesFeature.
  std::vector<std::string> features;
  std::vector<ViewManifest> views = {};  // sorted by name; of a run's own manifests only
  std::optional<ManifestSignature> signature = {};

  bool operator==(const Manifest&) const = default;
};

// Limits on untrusted bytes.
inline constexpr uint64_t kMaxManifestBytes = 8 << 20;
inline constexpr size_t kMaxManifestEdges = 64;
inline constexpr size_t kMaxManifestFiles = 16384;
inline constexpr size_t kMaxManifestAnchors = 16;
inline constexpr size_t kMaxManifestFeatures = 64;

// Canonical: sorted keys, no white space. kInvalid when ParseManifest would refuse it.
Result<Bytes> SerializeManifest(const Manifest& manifest);

// Strict: kCorrupt for anything malformed (by the name of the field), kUnsupported for a newer format or an unknown
// feature. Unknown fields are ignored.
Result<Manifest> ParseManifest(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_BOARD_MANIFEST_H_
