#include "skerry/board/keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace skerry {
namespace {

std::string Prefix16(const Digest& digest) { return digest.Hex().substr(0, 16); }

std::string RunPrefix(const RunId& run) { return fmt::format("runs/{}/", run); }

// The size of the well-formed UTF-8 sequence (RFC 3629) at the start of `text`, or 0.
size_t Utf8SequenceSize(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if ((first & 0xF0) == 0xE0) {
    const bool overlong = first == 0xE0 && second < 0xA0;
    const bool surrogate = first == 0xED && second >= 0xA0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && second < 0x90;
    const bool too_large = first == 0xF4 && second >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

// What is wrong with a path, or nullptr.
const char* FlawOf(std::string_view path, bool hidden_allowed) {
  if (path.empty()) return "it is empty";
  if (path.size() > kMaxKeySize) return "it has more than 1024 bytes";
  for (std::string_view rest = path; !rest.empty();) {
    const size_t size = Utf8SequenceSize(rest);
    if (size == 0) return "it is not UTF-8";
    const auto c = static_cast<uint8_t>(rest[0]);
    if (c < 0x20 || c == 0x7F) return "it has a control character";
    if (c == '\\') return "it has a backslash";
    rest.remove_prefix(size);
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

// Untrusted text in a message: what could confuse a terminal or JSON is replaced.
std::string Printable(std::string_view text) {
  std::string out(text.substr(0, 120));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return out;
}

}  // namespace

std::string BoardKey() { return "board.json"; }
std::string RunsPrefix() { return "runs/"; }
std::string RunKey(const RunId& run) { return RunPrefix(run) + "run.json"; }
std::string HeadKey(const RunId& run) { return RunPrefix(run) + "head"; }

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

std::string TensorDigestsKey(const RunId& run, Version version, const Digest& digests) {
  return fmt::format("{}digests-{}.bin", VersionPrefix(run, version), Prefix16(digests));
}

Result<std::string> AnchorKey(const RunId& run, Version version, const Digest& content, std::string_view path) {
  std::string key = fmt::format("{}anchors/{:09}/{}/{}", RunPrefix(run), version, Prefix16(content), path);
  SKERRY_TRY(ValidateKey(key));
  return key;
}

Status ValidateKey(std::string_view key) {
  if (const char* flaw = FlawOf(key, false)) return Fail(Code::kInvalid, "'{}' is not a key: {}", Printable(key), flaw);
  return {};
}

Status ValidateCheckpointPath(std::string_view path) {
  if (const char* flaw = FlawOf(path, true)) {
    return Fail(Code::kInvalid, "'{}' is not a path in a checkpoint: {}", Printable(path), flaw);
  }
  return {};
}

}  // namespace skerry
