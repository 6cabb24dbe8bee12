// The entropy-coded part of the sparse methods: gaps between changed members, and the steps of their values.
//
// The changes of a block come in strands, one for each class of its units (one in all for `sparse-flat`). A strand
// knows its members only by number; which units they are is the method's business.
#ifndef SKERRY_PATCH_CHANGE_STREAM_H_
#define SKERRY_PATCH_CHANGE_STREAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/patch/symbol_table.h"
#include "skerry/patch/value_step.h"

namespace skerry {

struct Strand {
  uint64_t members = 0;
  std::span<const uint32_t> changed;  // numbers of the changed members, rising
  std::span<const StepToken> tokens;  // their steps; every symbol has a frequency in `values`
  const SymbolTable* values = nullptr;
};

// Appends states, words and raw bits of all strands to `out`.
void EncodeStrands(std::span<const Strand> strands, Bytes& out);

struct StrandShape {
  uint64_t members = 0;
  uint64_t changed = 0;  // at most `members`
  const SymbolTable* values = nullptr;
};

// The steps of all strands, one strand after another.
struct DecodedSteps {
  std::vector<uint32_t> members;
  std::vector<uint32_t> ranks;    // of the step, or kEscapedStep + index into `escaped`
  std::vector<uint64_t> escaped;  // new bits of the values that did not travel as steps
};
inline constexpr uint32_t kEscapedStep = 1u << 31;  // ranks that travel as steps have at most 19 bits

// Where member m of every strand will be read, at data + m * stride: the cache is asked for it early. Need not exist.
struct MemberBytes {
  const std::byte* data = nullptr;
  size_t stride = 0;
};

// Decodes what EncodeStrands wrote; `value_bits` is the width of a value. Untrusted: kCorrupt when the payload is not
// exactly such strands, or a member's number is not below `members`.
Status DecodeStrands(ByteSpan payload, std::span<const StrandShape> strands, int value_bits, DecodedSteps& steps,
                     const MemberBytes& bytes = {});

}  // namespace skerry

#endif  // SKERRY_PATCH_CHANGE_STREAM_H_
