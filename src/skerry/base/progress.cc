#include "skerry/base/progress.h"

namespace skerry {

Progress& Progress::None() {
  struct Silent : Progress {
    void Begin(std::string_view, uint64_t) override {}
    void Advance(uint64_t) override {}
  };
  static Silent silent;
  return silent;
}

}  // namespace skerry
