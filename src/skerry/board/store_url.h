// Which store a board's name means.
#ifndef SKERRY_BOARD_STORE_URL_H_
#define SKERRY_BOARD_STORE_URL_H_

#include <memory>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/board/store.h"

namespace skerry {

// A directory (plain path or file:///…). Other schemes are kUnsupported, by name. `create`: make the directory.
Result<std::shared_ptr<Store>> OpenStore(std::string_view board, bool create);

}  // namespace skerry

#endif  // SKERRY_BOARD_STORE_URL_H_
