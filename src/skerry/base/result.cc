#include "skerry/base/result.h"

namespace skerry {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not_found";
    case Code::kConflict: return "conflict";
    case Code::kMismatch: return "mismatch";
    case Code::kCorrupt: return "corrupt";
    case Code::kUnsupported: return "unsupported";
    case Code::kNoSpace: return "no_space";
    case Code::kUnavailable: return "unavailable";
    case Code::kIo: return "io";
    case Code::kInterrupted: return "interrupted";
  }
  return "unknown";
}

}  // namespace skerry
