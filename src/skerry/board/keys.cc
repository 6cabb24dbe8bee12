#include "skerry/board/keys.h"

#include "skerry/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace skerry {
namespace {

std::string Prefix16(const Digest& digest) { return digest.Hex().substr(0, 16); }

// What is wrong with a path, or nullptr.
const char* FlawOf(std::string_view path, bool hidden_allowed) {
  if (path.empty()) return "it is empty";
  if (path.size() > kMaxKeySize) return "it has more than 1024 bytes";
  if (!IsUtf8(path)) return "it is not UTF-8";
  for (const char c : path) {
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) return "it has a control character";
    if (c == '\\') return "it has a backslash";
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component.empty()) return "it has an empty component";
    if (component == "." || component == "..") return "it has a component '.' or '..'";
    if (!hidden_allowed && component[0] == '.') return "it has a component that begins with '.'";
    if (component.size() > kMaxKeyComponentSize) return "it has a component of more than 240 bytes";
    begin = end + 1;
  }
  return nullptr;
}

}  // namespace

std::string BoardKey() { return "board.json"; }
std::string ProbePrefix(std::string_view token) { return fmt::format("probe/{}/", token); }
std::string RunsPrefix() { return "runs/"; }
std::string RunPrefix(const RunId& run) {
  return run.IsView() ? fmt::format("runs/{}/views/{}/", run.whole_name(), run.view()) : fmt::format("runs/{}/", run);
}
std::string RunKey(const RunId& run) { return RunPrefix(run) + "run.json"; }
std::string HeadKey(const RunId& run) { return RunPrefix(run.Whole()) + "head"; }

std::string LayoutKey(const RunId& run, const Digest& layout) {
  return fmt::format("{}layouts/{}.json.zst", RunPrefix(run), layout.Hex());
}

std::string VersionPrefix(const RunId& run, Version version) {
  return fmt::format("{}versions/{:09}/", RunPrefix(run), version);
}

std::string StagedManifestKey(const RunId& run, Version version, const Digest& manifest) {
  return fmt::format("{}manifest-{}.json", VersionPrefix(run, version), Prefix16(manifest));
}

std::string ManifestKey(const RunId& run, Version version) { return VersionPrefix(run, version) + "manifest.json"; }

std::string DeltaKey(const RunId& run, Version version, int part, const Digest& patch) {
  return fmt::format("{}delta-{:03}-{}.skerry", VersionPrefix(run, version), part, Prefix16(patch));
}

std::string SkipKey(const RunId& run, Version version, Version from, int part, const Digest& patch) {
  return fmt::format("{}skip-{:09}-{:03}-{}.skerry", VersionPrefix(run, version), from, part, Prefix16(patch));
}

std::string TensorDigestsKey(const RunId& run, Version version, const Digest& digests) {
  return fmt::format("{}digests-{}.bin", VersionPrefix(run, version), Prefix16(digests));
}

Result<std::string> PartReceiptKey(const RunId& run, Version version, std::string_view attempt, uint64_t index,
                                   uint64_t of) {
  std::string key = fmt::format("{}parts/{}-{:03}-of-{:03}.json", VersionPrefix(run, version), attempt, index, of);
  SKERRY_TRY(ValidateKey(key));
  return key;
}

std::string AnchorPrefix(const RunId& run, Version version) {
  return fmt::format("{}anchors/{:09}/", RunPrefix(run), version);
}

std::string AnchorDocumentKey(const RunId& run, Version version, const Digest& document) {
  return fmt::format("{}anchor-{}.json", AnchorPrefix(run, version), Prefix16(document));
}

std::string AnchorPartKey(const RunId& run, Version version, int part, const Digest& patch) {
  return fmt::format("{}part-{:03}-{}.skerry", AnchorPrefix(run, version), part, Prefix16(patch));
}

Result<std::string> AnchorFileKey(const RunId& run, Version version, const Digest& content, std::string_view path) {
  std::string key = fmt::format("{}{}/{}", AnchorPrefix(run, version), Prefix16(content), path);
  SKERRY_TRY(ValidateKey(key));
  return key;
}

std::string LeasePrefix(const RunId& run) { return RunPrefix(run) + "leases/"; }

std::string LeaseKey(const RunId& run, std::string_view reader) {
  return fmt::format("{}{}.json", LeasePrefix(run), reader);
}

std::string CollectMarkKey(const RunId& run) { return RunPrefix(run) + "gc.json"; }

Status ValidateKey(std::string_view key) {
  if (const char* flaw = FlawOf(key, false))
    return Fail(Code::kInvalid, "'{}' is not a key: {}", Printable(key.substr(0, 120)), flaw);
  return {};
}

Status ValidateCheckpointPath(std::string_view path) {
  if (const char* flaw = FlawOf(path, true)) {
    return Fail(Code::kInvalid, "'{}' is not a path in a checkpoint: {}", Printable(path.substr(0, 120)), flaw);
  }
  return {};
}

}  // namespace skerry
