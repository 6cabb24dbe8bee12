#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "Native part of skerry: what its modules stand on. Arrays are contiguous and on the CPU.";
  BindCheckpoint(m);
  BindPatch(m);
  BindDiffApply(m);
  BindBoard(m);
  BindPublisher(m);
  BindShards(m);
  BindSparse(m);
}
