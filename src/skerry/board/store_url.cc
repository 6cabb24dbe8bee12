#include "skerry/board/store_url.h"

#include "skerry/board/file_store.h"

namespace skerry {

Result<std::shared_ptr<Store>> OpenStore(std::string_view board, bool create) {
  if (board.empty()) return Fail(Code::kInvalid, "the board's name is empty: name a directory");
  std::string_view path = board;
  if (const size_t scheme = board.find("://"); scheme != std::string_view::npos) {
    if (board.substr(0, scheme) != "file") {
      return Fail(Code::kUnsupported, "board {}: this program reads directories (a path or file:///…), not {}://",
                  board, board.substr(0, scheme));
    }
    path.remove_prefix(scheme + 3);
    if (!path.starts_with('/')) {
      return Fail(Code::kInvalid, "board {}: a file URL has an absolute path: file:///…", board);
    }
  }
  SKERRY_ASSIGN(std::shared_ptr<Store> store, FileStore::Open(Path(path), create));
  return store;
}

}  // namespace skerry
