// The most a patch costs: for every dtype, size and share of changed elements, with random bits, Skerry's bytes against
// the tensor's own. Exit status 1 when a patch exceeds raw + 1 % + 1 KiB or does not rebuild the target.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "measure_bytes.h"
#include "model.h"

namespace skerry {
namespace {

constexpr double kDensities[] = {0, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99, 1};
constexpr uint64_t kSizes[] = {0, 8, 1 << 10, 300'000, 5'000'000};  // bytes

// One tensor.
class MemorySource : public TensorSource {
 public:
  MemorySource(Layout layout, Bytes bytes) : layout_(std::move(layout)), bytes_(std::move(bytes)) {}
  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t, uint64_t offset, uint64_t length, Bytes&) const override {
    return ByteSpan(bytes_).subspan(offset, length);
  }
  Status Check() const override { return {}; }

 private:
  Layout layout_;
  Bytes bytes_;
};

Result<uint64_t> PatchSize(const MemorySource& base, const MemorySource& target, Level level) {
  MemorySink sink;
  SKERRY_ASSIGN(const EncodeReceipt receipt,
                EncodePatch(base, target, {}, {.level = level, .with_names = false}, sink, Progress::None()));
  SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(std::move(sink.bytes())));
  SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(target.layout()));
  SKERRY_ASSIGN(const Model before, Model::Of(base));
  SKERRY_ASSIGN(const Model after, Model::Of(target));
  WorkingCopy copy(target.layout());
  copy.CopyFrom(before);
  SKERRY_TRY(ApplyPatch(patch, blocks, before, copy));
  if (!copy.Equals(after)) return Fail(Code::kCorrupt, "the target is not rebuilt");
  return receipt.patch_bytes;
}

Status Run(bool& exceeded) {
  std::mt19937_64 random(1);
  fmt::print("patch bytes over raw bytes, the worst of all densities\n{:>12}", "");
  for (const uint64_t size : kSizes) fmt::print(" {:>16}", fmt::format("{} B", size));
  fmt::print("\n");
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    const auto unit = static_cast<uint64_t>(DTypeUnit(dtype)), bits = static_cast<uint64_t>(DTypeBits(dtype));
    fmt::print("{:>12}", DTypeName(dtype));
    for (const uint64_t size : kSizes) {
      const uint64_t elements = size * 8 / bits / 4 * 4;  // whole bytes of packed elements
      const uint64_t bytes = elements * bits / 8;
      const auto layout = [&] {
        return Layout::FromHeaders(
            {{"model.safetensors", fmt::format(R"({{"t":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})",
                                               DTypeName(dtype), elements, bytes)}});
      };
      Bytes noise(bytes);
      std::ranges::generate(noise, [&] { return static_cast<std::byte>(random()); });
      double worst = -1e300;
      for (const double density : kDensities) {
        Bytes before = noise, after = noise;
        for (uint64_t at = 0; at < bytes; at += unit) {
          if (static_cast<double>(random() >> 11) * 0x1p-53 >= density) continue;
          const uint64_t value = random();
          std::memcpy(after.data() + at, &value, unit);
        }
        SKERRY_ASSIGN(Layout base_layout, layout());
        SKERRY_ASSIGN(Layout target_layout, layout());
        const MemorySource base(std::move(base_layout), std::move(before));
        const MemorySource target(std::move(target_layout), std::move(after));
        for (const Level level : kLevels) {
          SKERRY_ASSIGN(const uint64_t patch, PatchSize(base, target, level));
          worst = std::max(worst, static_cast<double>(patch) - static_cast<double>(bytes));
          exceeded |= static_cast<double>(patch) > 1.01 * static_cast<double>(bytes) + 1024;
        }
      }
      fmt::print(" {:>16}", fmt::format("{:+} B", worst));
    }
    fmt::print("\n");
  }
  return {};
}

}  // namespace
}  // namespace skerry

int main() {
  bool exceeded = false;
  const auto status = skerry::Run(exceeded);
  if (!status) fmt::print(stderr, "limits: {}\n", status.error().message);
  if (exceeded) fmt::print(stderr, "limits: a patch exceeds raw + 1 % + 1 KiB\n");
  return status && !exceeded ? 0 : 1;
}
