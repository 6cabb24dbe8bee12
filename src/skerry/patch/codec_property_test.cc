// Properties of the whole codec: whatever changes, however it is encoded, comes back by bits and costs no more than it
// is worth.
#include <cmath>
#include <numeric>

#include "skerry/patch/value_step.h"
#include "tests/testing/patches.h"

namespace skerry {
namespace {

enum class Kind { kNeighbours, kRandomBits, kSignFlips, kNaNs };

template <typename T>
T Changed(T bits, Kind kind, DType dtype, Random& random) {
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  const bool packed_bytes = dtype == DType::kU8 && kind == Kind::kSignFlips;
  if (dtype == DType::kF4 || packed_bytes) {  // one of the two codes
    const int shift = random() % 2 == 0 ? 0 : 4;
    const auto code = static_cast<uint8_t>(bits >> shift & 0xF);
    const uint8_t to = packed_bytes                ? AfterCodeStep(code, random() % 2, false)
                       : kind == Kind::kNeighbours ? AfterCodeStep(code, random() % 2, true)
                       : kind == Kind::kSignFlips  ? code ^ 8
                                                   : random() % 16;
    return static_cast<T>((bits & ~(0xF << shift)) | to << shift);
  }
  switch (kind) {
    case Kind::kNeighbours: return AfterStep(bits, random() % 2, DTypeIsSignMagnitude(dtype));
    case Kind::kRandomBits: return static_cast<T>(random());
    case Kind::kSignFlips: return bits ^ kSign;
    case Kind::kNaNs: break;
  }
  // All upper bits: a NaN in every float dtype that has them, with any payload.
  constexpr int kPayload = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 7 : sizeof(T) == 4 ? 22 : 51;
  const T payload = static_cast<T>(random() & ((uint64_t{1} << kPayload) - 1));
  return static_cast<T>((static_cast<T>(~T{0}) << kPayload) | payload);
}

template <typename T>
void ChangeUnits(TestTensor& tensor, double density, Kind kind, Random& random) {
  for (size_t i = 0; i < tensor.units(); ++i) {
    if (density < 1 && static_cast<double>(random() >> 11) * 0x1p-53 >= density) continue;
    std::byte* at = tensor.bytes.data() + i * sizeof(T);
    StoreLe(at, Changed(LoadLe<T>(at), kind, tensor.dtype, random));
  }
}

void Change(TestTensor& tensor, double density, Kind kind, Random& random) {
  switch (tensor.unit()) {
    case 1: return ChangeUnits<uint8_t>(tensor, density, kind, random);
    case 2: return ChangeUnits<uint16_t>(tensor, density, kind, random);
    case 4: return ChangeUnits<uint32_t>(tensor, density, kind, random);
    default: return ChangeUnits<uint64_t>(tensor, density, kind, random);
  }
}

std::vector<uint64_t> SomeShape(DType dtype) {
  const uint64_t elements = *rc::gen::weightedElement<uint64_t>({{2, 0},
                                                                 {2, 1},
                                                                 {4, 5},
                                                                 {4, 63},
                                                                 {4, 64},
                                                                 {4, 200},
                                                                 {8, 3000},
                                                                 {3, 20'000},
                                                                 {1, 65'535},
                                                                 {1, 65'536},
                                                                 {1, 70'001}});
  const auto packed = static_cast<uint64_t>(8 / std::gcd(8, DTypeBits(dtype)));  // elements must fill bytes
  if (elements == 1 && packed == 1 && *rc::gen::arbitrary<bool>()) return {};    // a scalar
  if (*rc::gen::arbitrary<bool>()) return {(elements + packed - 1) / packed * packed};
  return {(elements + packed - 1) / packed, packed};
}

std::string Seen(const TestModel& model, double density, Kind kind, const EncodeOptions& options) {
  std::string text = fmt::format("density {} kind {} level {} threads {}:", density, static_cast<int>(kind),
                                 static_cast<int>(options.level), options.threads);
  for (const TestTensor& tensor : model.tensors) {
    text += fmt::format(" {} of {} units", DTypeName(tensor.dtype), tensor.units());
  }
  return text;
}

// 1 to 3 tensors of the dtype, and often some of another.
TestModel SomeModel(DType dtype, Random& random) {
  TestModel model;
  const auto add = [&](DType added) {
    TestTensor tensor = RandomTensor(fmt::format("t{}", model.tensors.size()), added, SomeShape(added), random);
    // Weights as they are, or any bits.
    if (*rc::gen::inRange(0, 4) == 0) tensor.bytes = RandomBytes(tensor.bytes.size(), random);
    model.tensors.push_back(std::move(tensor));
  };
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) add(dtype);
  if (*rc::gen::inRange(0, 3) == 0) add(*DTypeFromCode(static_cast<uint8_t>(*rc::gen::inRange(0, kDTypeCount))));
  return model;
}

void GivesBackWhateverChanges(DType dtype) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const TestModel base_model = SomeModel(dtype, random);
  const double density = *rc::gen::element(0.0, 1e-5, 1e-3, 0.01, 0.1, 0.5, 0.9, 1.0);
  const Kind kind = *rc::gen::element(Kind::kNeighbours, Kind::kRandomBits, Kind::kSignFlips, Kind::kNaNs);
  TestModel target_model = base_model;
  for (TestTensor& tensor : target_model.tensors) Change(tensor, density, kind, random);
  const EncodeOptions options{.threads = *rc::gen::element(1, 3),
                              .level = *rc::gen::element(Level::kFast, Level::kCompact),
                              .with_names = false};
  const std::string simd = *rc::gen::elementOf(SimdNames()), other_simd = *rc::gen::elementOf(SimdNames());
  RC_LOG() << Seen(base_model, density, kind, options) << " by " << simd << std::endl;

  const ModelSource base(base_model), target(target_model);
  MemorySink sink;
  EncodeReceipt receipt;
  {
    const WithSimd with(simd);
    receipt = Must(EncodePatch(base, target, {}, options, sink, Progress::None()));
  }
  // Lossless, and digests that move along (Decoded checks them against the specification).
  const WithSimd with(other_simd);
  const Patch patch = Must(Patch::FromBytes(sink.bytes()));
  RC_ASSERT(Must(Decoded(patch, base, target.layout())) == TensorsOf(target));
  RC_ASSERT(receipt.target_digests == Must(DigestTensors(target, 1, Progress::None())));
  RC_ASSERT(receipt.base_digests == Must(DigestTensors(base, 1, Progress::None())));
  // Small: the raw bytes of the tensors that changed, and little more.
  uint64_t raw = 0, changed = 0;
  for (size_t i = 0; i < base_model.tensors.size(); ++i) {
    const TestTensor &before = base_model.tensors[i], &after = target_model.tensors[i];
    if (before.bytes != after.bytes) raw += before.bytes.size();
    for (size_t u = 0; u < before.units(); ++u) {
      changed += std::memcmp(before.bytes.data() + u * before.unit(), after.bytes.data() + u * before.unit(),
                             before.unit()) != 0;
    }
  }
  RC_LOG() << sink.bytes().size() << " bytes for " << raw << std::endl;
  RC_ASSERT(sink.bytes().size() <= MostPatchBytes(raw));
  RC_ASSERT(patch.info().changed == changed);
  if (options.level == Level::kFast) RC_ASSERT(patch.head().magnitudes.empty());
  // The same bytes for any number of threads and instruction set.
  EncodeOptions other = options;
  other.threads = 4 - options.threads;
  RC_ASSERT(PatchBetween(base, target, other) == sink.bytes());
}

class CodecPropertyTest : public ::testing::TestWithParam<int> {};

TEST_P(CodecPropertyTest, GivesBackWhateverChanges) {
  const auto dtype = *DTypeFromCode(static_cast<uint8_t>(GetParam()));
  EXPECT_TRUE(rc::check(fmt::format("whatever changes in {} comes back", DTypeName(dtype)),
                        [&] { GivesBackWhateverChanges(dtype); }));
}

INSTANTIATE_TEST_SUITE_P(EveryDtype, CodecPropertyTest, ::testing::Range(0, kDTypeCount), [](const auto& info) {
  return std::string(DTypeName(*DTypeFromCode(static_cast<uint8_t>(info.param))));
});

}  // namespace
}  // namespace skerry
