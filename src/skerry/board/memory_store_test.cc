#include "skerry/board/memory_store.h"

#include "skerry/board/store_conformance.h"

namespace skerry {
namespace {

struct MemoryBackend {
  std::shared_ptr<Store> store = std::make_shared<MemoryStore>();
  static constexpr int kRaceThreads = 32;
  static constexpr int kRaceRounds = 200;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreConformance, MemoryBackend);

}  // namespace
}  // namespace skerry
