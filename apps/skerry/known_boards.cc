#include "known_boards.h"

#include "skerry/board/run_info.h"
#include "skerry/board/store_url.h"
#include "skerry/publish/publisher.h"

namespace skerry {

KnownBoard::KnownBoard(const std::string& name) : name_(name) {
  // A relative directory is another board in another place.
  std::error_code error;
  const bool is_url = name.find("://") != std::string::npos;
  const std::string full = is_url ? name : std::filesystem::absolute(name, error).lexically_normal().string();
  if (const auto cache = CacheDirectory()) note_ = *cache / "boards" / Sha256::Of(full).Hex().substr(0, 32);
}

Result<Board> KnownBoard::Open() const {
  SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(name_, /*create=*/false));
  if (!note_.empty()) {
    const auto note = ReadFile(note_, kMaxInfoBytes);
    if (note) {
      if (auto info = ParseBoardInfo(*note)) return Board::Known(std::move(store), *std::move(info));
    }
  }
  SKERRY_ASSIGN(Board board, Board::Open(std::move(store)));
  const auto bytes = SerializeBoardInfo(board.info());
  // Without a note the next publish asks again.
  if (!note_.empty() && bytes && MakeDirectories(note_.parent_path())) {
    [[maybe_unused]] const Status written = WriteFileAtomically(note_, *bytes);
  }
  return board;
}

void KnownBoard::Forget() const {
  std::error_code error;
  if (!note_.empty()) std::filesystem::remove(note_, error);
}

}  // namespace skerry
