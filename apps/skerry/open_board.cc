#include "open_board.h"

#include "skerry/board/board_keys.h"
#include "terminal.h"

namespace skerry {
namespace {

constexpr KeyArguments kCalled = {.trust_keys = "--trust-key", .sign_key = "--sign-key"};

}  // namespace

Status TrustKeys(Board& board, const std::vector<std::string>& trust_keys) {
  return TrustKeys(board, trust_keys, kCalled);
}

Status SignVersions(Board& board, const std::string& sign_key) {
  SKERRY_ASSIGN(const std::string warning, SignVersions(board, sign_key, kCalled));
  if (!warning.empty()) PrintWarning(warning);
  return {};
}

Result<Board> OpenBoard(const std::string& name, const std::vector<std::string>& trust_keys) {
  SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(name, /*create=*/false));
  SKERRY_ASSIGN(Board board, Board::Open(std::move(store)));
  SKERRY_TRY(TrustKeys(board, trust_keys));
  return board;
}

}  // namespace skerry
