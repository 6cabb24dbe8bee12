#include "held_board.h"

#include <fmt/core.h>

#include <utility>

#include "errors.h"
#include "skerry/board/board_keys.h"
#include "skerry/board/store_url.h"

using skerry::Board;
using skerry::Code;
using skerry::Result;
using skerry::RunId;
using skerry::Version;

namespace {

constexpr skerry::KeyArguments kCalled = {.trust_keys = "trust_keys", .sign_key = "sign_key"};

}  // namespace

Result<std::unique_ptr<HeldBoard>> HeldBoard::Make(std::string name, std::string sign_key,
                                                   std::vector<std::string> trust_keys) {
  auto store = skerry::OpenStore(name, /*create=*/false);
  // A directory that is missing may still be made.
  if (!store && store.error().code != Code::kNotFound) return skerry::Annotate(std::move(store).error(), "board");
  auto held = std::make_unique<HeldBoard>();
  held->name_ = std::move(name);
  held->sign_key_ = std::move(sign_key);
  held->trust_keys_ = std::move(trust_keys);
  Board board = Board::Known(store ? *std::move(store) : nullptr, {});
  SKERRY_TRY(held->SetKeys(board, /*sign=*/!held->sign_key_.empty()));
  return held;
}

Result<Board> HeldBoard::Open(bool sign) {
  const std::lock_guard lock(mutex_);
  if (!board_) {
    SKERRY_ASSIGN(std::shared_ptr<skerry::Store> store, skerry::OpenStore(name_, /*create=*/false));
    SKERRY_ASSIGN(board_, Board::Open(std::move(store)));
  }
  return WithKeys(*board_, sign);
}

Result<Board> HeldBoard::Create() {
  const std::lock_guard lock(mutex_);
  if (!board_) {
    SKERRY_ASSIGN(std::shared_ptr<skerry::Store> store, skerry::OpenStore(name_, /*create=*/true));
    SKERRY_ASSIGN(board_, Board::Create(std::move(store)));
  }
  return WithKeys(*board_, /*sign=*/true);
}

Result<Board> HeldBoard::WithKeys(Board board, bool sign) const {
  SKERRY_TRY(SetKeys(board, sign));
  return board;
}

skerry::Status HeldBoard::SetKeys(Board& board, bool sign) const {
  SKERRY_TRY(skerry::TrustKeys(board, trust_keys_, kCalled));
  if (!sign) return {};
  SKERRY_ASSIGN([[maybe_unused]] const std::string warning, skerry::SignVersions(board, sign_key_, kCalled));
  return {};
}

RunId RunOf(const std::string& run, std::string_view argument) {
  auto parsed = RunId::Parse(run);
  if (!parsed) Raise(skerry::Annotate(std::move(parsed).error(), argument).value());
  return *std::move(parsed);
}

std::optional<Version> VersionOf(std::optional<int64_t> version) {
  if (!version) return std::nullopt;
  if (*version < 0 || static_cast<uint64_t>(*version) > Version::kMax) {
    Raise({Code::kInvalid, fmt::format("version: {}, but 0 to {} are possible", *version, Version::kMax)});
  }
  return Version(static_cast<uint64_t>(*version));
}
