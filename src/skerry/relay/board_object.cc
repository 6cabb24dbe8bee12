#include "skerry/relay/board_object.h"

#include <algorithm>
#include <span>
#include <vector>

#include "skerry/board/anchor.h"
#include "skerry/board/board.h"
#include "skerry/board/head.h"
#include "skerry/board/keys.h"
#include "skerry/board/manifest.h"
#include "skerry/board/run_info.h"

namespace skerry {
namespace {

constexpr size_t kDigits = 16, kAllDigits = 64, kVersionDigits = 9;

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::vector<std::string_view> Components(std::string_view key) {
  std::vector<std::string_view> all;
  while (true) {
    const size_t slash = key.find('/');
    all.push_back(key.substr(0, slash));
    if (slash == std::string_view::npos) return all;
    key.remove_prefix(slash + 1);
  }
}

// "delta-003-<16 hex>.skerry": the digits before the ending.
std::optional<std::string_view> DigitsOf(std::string_view name) {
  const size_t dot = name.rfind('.'), dash = name.rfind('-');
  if (dot == std::string_view::npos || dash == std::string_view::npos || dash > dot) return std::nullopt;
  const std::string_view digits = name.substr(dash + 1, dot - dash - 1);
  return IsHex(digits, kDigits) ? std::optional(digits) : std::nullopt;
}

// Below versions/<v>/ or anchors/<v>/.
std::optional<BoardObject> ReadOfVersion(BoardObject object, bool anchor, std::span<const std::string_view> rest) {
  object.anchor = anchor;
  if (anchor && rest.size() >= 2) {
    if (!IsHex(rest[0], kDigits)) return std::nullopt;
    object.digits = rest[0];
    return object;
  }
  if (rest.size() != 1) return std::nullopt;
  if (!anchor && rest[0] == "manifest.json") {
    object.kind = ObjectKind::kManifest;
    return object;
  }
  const auto digits = DigitsOf(rest[0]);
  if (!digits) return std::nullopt;
  object.digits = *digits;
  if (!anchor && rest[0].starts_with("manifest-")) object.kind = ObjectKind::kManifest;
  if (anchor && rest[0].starts_with("anchor-")) object.kind = ObjectKind::kAnchorDocument;
  return object;
}

}  // namespace

std::optional<BoardObject> ReadBoardKey(std::string_view key) {
  if (!ValidateKey(key)) return std::nullopt;
  if (key == BoardKey()) return BoardObject{.kind = ObjectKind::kBoardInfo};
  const std::vector<std::string_view> all = Components(key);
  std::span<const std::string_view> rest(all);
  if (rest.size() < 3 || rest[0] != "runs") return std::nullopt;
  BoardObject object;
  std::string name(rest[1]);
  rest = rest.subspan(2);
  const bool view = rest.size() >= 3 && rest[0] == "views";
  if (view) {
    name += "/" + std::string(rest[1]);
    rest = rest.subspan(2);
  }
  const auto run = RunId::Parse(name);
  if (!run) return std::nullopt;
  object.run = *run;
  if (rest.size() == 1 && rest[0] == "head" && !view) {
    object.kind = ObjectKind::kHead;
    return object;
  }
  if (rest.size() == 1 && rest[0] == "run.json") {
    object.kind = ObjectKind::kRunInfo;
    return object;
  }
  constexpr std::string_view kPacked = ".json.zst";
  if (rest.size() == 2 && rest[0] == "layouts" && rest[1].ends_with(kPacked)) {
    object.kind = ObjectKind::kLayout;
    object.digits = rest[1].substr(0, rest[1].size() - kPacked.size());
    return IsHex(object.digits, kAllDigits) ? std::optional(object) : std::nullopt;
  }
  const bool anchor = rest[0] == "anchors";
  if (rest.size() < 3 || (!anchor && rest[0] != "versions") || rest[1].size() != kVersionDigits) return std::nullopt;
  const auto version = Version::Parse(rest[1]);
  if (!version) return std::nullopt;
  object.version = *version;
  return ReadOfVersion(std::move(object), anchor, rest.subspan(2));
}

uint64_t MostBytesOf(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kBoardInfo:
    case ObjectKind::kRunInfo: return kMaxInfoBytes;
    case ObjectKind::kHead: return kMaxHeadBytes;
    case ObjectKind::kManifest: return kMaxManifestBytes;
    case ObjectKind::kLayout: return kMaxPackedLayoutBytes;
    case ObjectKind::kAnchorDocument: return kMaxAnchorBytes;
    case ObjectKind::kData: return 0;
  }
  return 0;
}

}  // namespace skerry
