// Constants of the patch format, version 1. docs/patch-format.md is the norm; names and numbers here are the same.
#ifndef SKERRY_PATCH_FORMAT_H_
#define SKERRY_PATCH_FORMAT_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace skerry {

inline constexpr std::string_view kPatchMagic = "\x8ASKERRY\n";
inline constexpr std::string_view kPatchEndMagic = "\nYRREKS\x8A";
inline constexpr uint32_t kPatchVersion = 1;
inline constexpr size_t kPatchHeaderBytes = 24;
inline constexpr size_t kPatchFooterBytes = 28;
inline constexpr size_t kSectionEntryBytes = 17;

// Feature bits. A reader refuses a file with a bit that it does not know.
enum PatchFeature : uint64_t {
  kFeatureStructural = 1 << 0,  // tensors were added, removed, or changed dtype or shape
  kFeatureBoxes = 1 << 1,       // its tensors are boxes of a model's tensors
  kFeatureCodes = 1 << 2,       // bytes of U8 may be read as two codes of 4 bits
};
inline constexpr uint64_t kKnownFeatures = kFeatureStructural | kFeatureBoxes | kFeatureCodes;

enum class Section : uint8_t {
  kInfo = 1,       // digests and counts
  kTables = 2,     // symbol frequencies
  kDirectory = 3,  // one entry a block
  kNames = 4,      // optional: names of the tensors that have blocks
  kLayout = 5,     // optional: the target's layout where it is not the base's
  kSideFiles = 6,  // optional: config, tokenizer, … that changed
  kBoxes = 7,      // with kFeatureBoxes: which boxes of which tensors
};
inline constexpr size_t kMaxSections = 7;

enum class Method : uint8_t {
  kDense = 0,
  kSparseFlat = 1,
  kSparseMagnitude = 2,
};

// "dense", "sparse-flat", "sparse-magnitude".
constexpr std::string_view MethodName(Method method) {
  switch (method) {
    case Method::kDense: return "dense";
    case Method::kSparseFlat: return "sparse-flat";
    default: return "sparse-magnitude";
  }
}

// A tensor is divided into cells of kCellUnits storage units (the last one may be shorter). A block is a run of 1 to
// kMaxCellsPerBlock cells of tensors of one dtype (see cell_order.h); the encoder closes it at kChangesPerBlock
// changes.
inline constexpr uint32_t kCellUnits = 1 << 16;
inline constexpr uint32_t kMaxCellsPerBlock = 64;
inline constexpr uint32_t kChangesPerBlock = 3072;

// Limits that a reader enforces before it allocates.
inline constexpr uint64_t kMaxInfoSectionBytes = 256;
inline constexpr uint64_t kMaxTablesSectionBytes = 64 << 10;
inline constexpr uint64_t kMaxDirectorySectionBytes = 1ull << 30;
inline constexpr uint64_t kMaxNamesSectionBytes = 256ull << 20;      // after decompression
inline constexpr uint64_t kMaxLayoutSectionBytes = 256ull << 20;     // after decompression
inline constexpr uint64_t kMaxSideFilesSectionBytes = 256ull << 20;  // after decompression, all together
inline constexpr uint64_t kMaxBoxesSectionBytes = 32ull << 20;       // after decompression
inline constexpr uint64_t kMaxBoxes = 1 << 20;                       // each takes some 100 bytes of memory

// A sparse block of at least this many changes uses two pairs of entropy coder states in turn: twice the
// independent work for the processor, at the price of eight bytes.
inline constexpr uint64_t kTwoPairsFrom = 64;

constexpr uint64_t CellsOf(uint64_t units) { return (units + kCellUnits - 1) / kCellUnits; }

}  // namespace skerry

#endif  // SKERRY_PATCH_FORMAT_H_
