// What the tests of this folder share: a scratch directory, and small well-formed heads and manifests.
#ifndef SKERRY_BOARD_BOARD_TESTING_H_
#define SKERRY_BOARD_BOARD_TESTING_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/base/signing.h"
#include "skerry/board/board.h"
#include "skerry/board/head.h"
#include "skerry/board/keys.h"
#include "skerry/board/manifest.h"
#include "skerry/board/names.h"

namespace skerry {

// An empty directory that goes away with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() : path_(std::filesystem::temp_directory_path() / ("skerry-board-" + RandomToken().substr(0, 12))) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

inline RunId RunNamed(std::string_view name) { return RunId::Parse(name).value(); }

template <typename T>
std::string CodeOf(const Result<T>& result) {
  return result ? "ok" : std::string(CodeName(result.error().code));
}
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result ? "" : result.error().message;
}

// Keys that everybody knows; 1 is that of the worked example of docs/board-protocol.md.
inline PrivateKey SampleKey(uint8_t number) {
  const std::vector<std::byte> seed(PrivateKey::kSeedSize, std::byte{number});
  return PrivateKey::FromSeed(std::span<const std::byte, PrivateKey::kSeedSize>(seed));
}

// All have the anchor of version 0; every other version has one delta.
inline Manifest SampleManifest(const RunId& run, Version version, std::optional<Digest> parent) {
  Manifest manifest{
      .run = run,
      .version = version,
      .parent = parent,
      .time = "2026-01-02T03:04:05.678Z",
      .step = 400 + static_cast<int64_t>(version.number()),
      .layout = Sha256::Of("layout"),
      .model = Sha256::Of("model " + version.ToString()),
      .tensor_digests = {.key = TensorDigestsKey(run, version, Sha256::Of("digests")),
                         .uri = {},
                         .size = 320,
                         .sha256 = Sha256::Of("digests")},
      .side_files = {{.path = "config.json", .size = 12, .sha256 = Sha256::Of("config")}},
      .edges = {},
      .anchors = {},
      .fork = {},
      .stats = {.elements = 1000, .changed = 7, .tensors_changed = 2, .checkpoint_bytes = 2000, .patch_bytes = 33},
      .features = {}};
  const Digest anchor = Sha256::Of("anchor");
  manifest.anchors = {
      {.version = Version(0),
       .bytes = 2000,
       .object = {.key = AnchorDocumentKey(run, Version(0), anchor), .uri = {}, .size = 300, .sha256 = anchor}}};
  if (!version.IsBase()) {
    const Digest patch = Sha256::Of("patch " + version.ToString());
    manifest.edges = {
        {.kind = "delta",
         .from = version.Previous(),
         .base_model = Sha256::Of("model " + version.Previous().ToString()),
         .parts = {{.object = {.key = DeltaKey(run, version, 0, patch), .uri = {}, .size = 33, .sha256 = patch},
                    .tensors = {}}}}};
  }
  return manifest;
}

inline Head SampleHead(const Manifest& manifest, const ManifestRef& ref, uint64_t sequence,
                       std::string_view publisher = "publisher-a", uint64_t epoch = 1) {
  return {.run = manifest.run,
          .epoch = epoch,
          .version = manifest.version,
          .manifest = ref,
          .model = manifest.model,
          .publisher = std::string(publisher),
          .nonce = RandomToken(),
          .sequence = sequence,
          .time = "2026-01-02T03:04:05.678Z"};
}

inline Head SampleHead(const StagedManifest& staged, uint64_t sequence, std::string_view publisher = "publisher-a",
                       uint64_t epoch = 1) {
  return SampleHead(staged.manifest(), staged.ref(), sequence, publisher, epoch);
}

// The head as it stands, settled; nullopt where the run has none.
inline std::optional<SettledHead> SettledNow(const Board& board, const RunId& run) {
  const Result<HeadAt> head = board.ReadHead(run);
  if (!head) return std::nullopt;
  return board.Settle(*head).value();
}

}  // namespace skerry

#endif  // SKERRY_BOARD_BOARD_TESTING_H_
