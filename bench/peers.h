// What others do, re-implemented from their wire layouts for a side-by-side run in one process. Each is as quick as its
// layout lets it be: one pass over the tensors, vectorised compare, buffers kept between calls.
#ifndef SKERRY_BENCH_PEERS_H_
#define SKERRY_BENCH_PEERS_H_

#include <memory>
#include <optional>

#include "model.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// A peer's delta between two versions of a model. Not for several threads at once.
class Peer {
 public:
  virtual ~Peer() = default;
  // All bytes on the wire; valid until the next call.
  virtual ByteSpan Encode(const Model& before, const Model& after) = 0;
  // Decodes and turns `model` from the old version into the new one.
  virtual void Apply(ByteSpan wire, const Layout& layout, WorkingCopy& model) = 0;
};

// slime, stitch, miles: a safetensors file of zstd-1 frames, each the XOR of one whole tensor, with an XXH3-128 of the
// new tensor, and an index.
std::unique_ptr<Peer> MakeSlime();

// NeMo RL's sparse XOR refit: for each 256 MiB of tensors one zstd-1 frame of all gaps between changed elements (16
// bits each, 32 in a tensor that needs them; none where the changed elements are one run), then all XORs of old and new
// bits, then a record a tensor. Their records are pickled by torch.save, whose container costs 1-2 KB more than ours.
std::unique_ptr<Peer> MakeNemo();

// verl, vLLM, vime: 32-bit positions and the new bits, uncompressed.
std::unique_ptr<Peer> MakePositions();

// What programs make of two files without knowing what is in them: the sum over a checkpoint's shards.
Result<uint64_t> ZstdPatchFromBytes(const Checkpoint& before, const Checkpoint& after, int level);
// By the program `bsdiff`; nothing where it is not installed. 1-2 MB/s.
Result<std::optional<uint64_t>> BsdiffBytes(const Checkpoint& before, const Checkpoint& after, const Path& scratch);

}  // namespace skerry

#endif  // SKERRY_BENCH_PEERS_H_
