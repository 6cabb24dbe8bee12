// The class-scan kernels on every instruction set that this machine has, against their scalar specification.
#include <memory>

#include "blocks.h"
#include "skerry/patch/class_scan.h"

namespace skerry {
namespace {

constexpr DType kDTypes[] = {DType::kF4,   DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0, DType::kF16,
                             DType::kBF16, DType::kF32,    DType::kF64,    DType::kU8};

MagnitudeClasses SomeClasses(FuzzedDataProvider& input, const MagnitudeView& view) {
  const auto count = input.ConsumeIntegralInRange<size_t>(1, kMaxClasses);
  // Bounds at exponents take a faster path.
  const uint64_t unit = view.bits > 8 && input.ConsumeBool() ? uint64_t{1} << (view.bits - 9) : 1;
  std::vector<uint64_t> lowest;
  for (uint64_t bound = 0; lowest.size() + 1 < count && bound < view.mask / unit;) {
    const uint64_t left = view.mask / unit - bound;
    bound += input.ConsumeIntegralInRange<uint64_t>(1, input.ConsumeBool() ? left : std::min<uint64_t>(left, 4));
    lowest.push_back(bound * unit);
  }
  return MagnitudeClasses(view, lowest);
}

// `content` at some distance from the allocation's start, so that every alignment occurs; exactly as long as it is, so
// that a read past the end is found.
struct Placed {
  Placed(const std::string& content, size_t shift)
      : buffer(new std::byte[shift + content.size()]), bytes(buffer.get() + shift, content.size()) {
    if (!content.empty()) std::memcpy(buffer.get() + shift, content.data(), content.size());
  }
  std::unique_ptr<std::byte[]> buffer;
  ByteSpan bytes;
};

struct Outcome {
  std::vector<uint8_t> rows;
  ClassCounts counts{}, first{};
  std::vector<uint8_t> class_of;
  std::vector<uint32_t> number_of, found, payloads;
  bool operator==(const Outcome&) const = default;
};

Outcome Scan(ByteSpan bytes, const MagnitudeClasses& classes, const std::vector<uint32_t>& positions) {
  const size_t rows_bytes = RowsBytes(ElementsIn(bytes, classes.view()), classes.count()), count = positions.size();
  Outcome out;
  out.rows.resize(rows_bytes + kRowSlack);
  CountMembers(bytes, classes, out.rows.data(), out.counts);
  for (size_t c = 0; c < kMaxClasses; ++c) out.first[c] = static_cast<uint32_t>(7 * c);
  out.class_of.resize(count);
  out.number_of.resize(count);
  NumberMembers(bytes, classes, out.rows.data(), positions, out.first, out.class_of.data(), out.number_of.data());
  std::array<std::vector<uint32_t>, kMaxClasses> numbers, indices;
  for (size_t i = 0; i < count; ++i) {
    const size_t c = out.class_of[i];
    FUZZ_CHECK(c < static_cast<size_t>(classes.count()));
    numbers[c].push_back(out.number_of[i] - static_cast<uint32_t>(7 * c));
    indices[c].push_back(static_cast<uint32_t>(i));
  }
  WantedMembers wanted;
  for (size_t c = 0; c < kMaxClasses; ++c) wanted.Add(static_cast<int>(c), numbers[c], indices[c].data());
  out.found.resize(count);
  out.payloads.resize(count);
  FUZZ_CHECK(FindMembers(bytes, classes, out.rows.data(), wanted, 0, out.found.data(), out.payloads.data()) == count);
  FUZZ_CHECK(out.found == positions);
  for (size_t i = 0; i < count; ++i) FUZZ_CHECK(out.payloads[i] == i);
  out.rows.resize(rows_bytes);
  return out;
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  const DType dtype = kDTypes[input.ConsumeIntegralInRange<size_t>(0, std::size(kDTypes) - 1)];
  const MagnitudeView view = *MagnitudeViewOf(dtype);
  const MagnitudeClasses classes = SomeClasses(input, view);
  const auto shift = input.ConsumeIntegralInRange<size_t>(0, 64);
  // Repeats make the data longer than the fuzzer's input; now and then, since that is slow, past the kernels' chunks of
  // 512 groups.
  const size_t most = input.ConsumeIntegralInRange<uint8_t>(0, 63) == 1 ? 300'000 : 3'000;
  const auto repeats = input.ConsumeIntegralInRange<size_t>(1, 400);
  const auto every = input.ConsumeIntegralInRange<uint32_t>(1, 300);
  const std::string piece = input.ConsumeRemainingBytesAsString();
  std::string content;
  for (size_t i = 0; i < repeats && content.size() < most; ++i) content += piece;
  content.resize(content.size() / static_cast<size_t>(DTypeUnit(dtype)) * static_cast<size_t>(DTypeUnit(dtype)));
  const Placed placed(content, shift);
  std::vector<uint32_t> positions;
  const size_t elements = ElementsIn(placed.bytes, view);
  for (uint32_t at = every / 2; at < elements; at += 1 + (at * 2654435761u >> 16) % every) positions.push_back(at);

  FUZZ_CHECK(SetSimd("scalar"));
  const Outcome expected = Scan(placed.bytes, classes, positions);
  for (const std::string_view set : kSimdSets) {
    FUZZ_CHECK(SetSimd(set));
    FUZZ_CHECK(Scan(placed.bytes, classes, positions) == expected);
  }
  return 0;
}
