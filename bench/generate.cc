// Makes large checkpoints with realistic magnitudes and a realistic step between them, for measuring speed and memory.
//
// usage: generate OUT GIB DENSITY [SEED]      writes OUT/v000 and OUT/v001 (bf16, shards of 2 GiB)
//
// Weights are normal (sigma 0.02). As under Adam at a small learning rate, the chance that a weight's bf16 bits change
// halves with each exponent; the chances are scaled so that DENSITY (0.009 = 0.9 %) of all elements change. 90 % of the
// changes are to the neighbouring value, the rest a few values further.
#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "skerry/base/file.h"

namespace skerry {
namespace {

constexpr uint64_t kRow = 4096;            // elements
constexpr uint64_t kTensor = kRow * kRow;  // elements; 32 MiB of bf16
constexpr uint64_t kTensorsAShard = 64;    // 2 GiB

// xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
struct Random {
  uint64_t state;
  uint64_t Next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1D;
  }
};

uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// 2^16 draws from the normal distribution, and for each the chance of a change times 2^32.
struct Distribution {
  std::vector<uint16_t> values = std::vector<uint16_t>(1 << 16);
  std::vector<uint32_t> chances = std::vector<uint32_t>(1 << 16);

  Distribution(double density, Random random) {
    std::vector<double> weights(values.size());
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double u = (static_cast<double>(random.Next() >> 11) + 0.5) * 0x1p-53;
      const double v = static_cast<double>(random.Next() >> 11) * 0x1p-53;
      values[i] = ToBf16(static_cast<float>(0.02 * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v)));
      weights[i] = std::exp2(-static_cast<double>(values[i] >> 7 & 0xFF) + 120);
    }
    // Chances are capped at one half; a few rounds make up for what the cap takes away.
    double scale = 1;
    for (int round = 0; round < 40; ++round) {
      sum = 0;
      for (const double weight : weights) sum += std::min(0.5, scale * weight);
      scale *= density * static_cast<double>(weights.size()) / sum;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      chances[i] = static_cast<uint32_t>(std::min(0.5, scale * weights[i]) * 0x1p32);
    }
  }
};

std::string Header(uint64_t first, uint64_t count) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  for (uint64_t i = 0; i < count; ++i) {
    json += fmt::format(R"(,"model.layers.{}.weight":{{"dtype":"BF16","shape":[{},{}],"data_offsets":[{},{}]}})",
                        first + i, kRow, kRow, i * kTensor * 2, (i + 1) * kTensor * 2);
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

Status Generate(const Path& out, double gib, double density, uint64_t seed) {
  const auto tensors = static_cast<uint64_t>(std::max(1.0, gib * 0x1p30 / static_cast<double>(kTensor * 2)));
  const uint64_t shards = (tensors + kTensorsAShard - 1) / kTensorsAShard;
  const Distribution distribution(density, Random{seed * 2 + 1});
  Random random{seed ^ 0x9E3779B97F4A7C15};
  std::string map;
  uint64_t changed = 0;
  std::vector<uint16_t> before(kTensor), after(kTensor);
  for (const char* version : {"v000", "v001"}) SKERRY_TRY(MakeDirectories(out / version));
  for (uint64_t shard = 0; shard < shards; ++shard) {
    const uint64_t first = shard * kTensorsAShard, count = std::min(kTensorsAShard, tensors - first);
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    SKERRY_ASSIGN(File old_file, File::Create(out / "v000" / name));
    SKERRY_ASSIGN(File new_file, File::Create(out / "v001" / name));
    const std::string header = Header(first, count);
    const uint64_t length = header.size();
    for (File* file : {&old_file, &new_file}) {
      SKERRY_TRY(file->Append(std::as_bytes(std::span(&length, 1))));
      SKERRY_TRY(file->Append(AsBytes(header)));
    }
    for (uint64_t tensor = first; tensor < first + count; ++tensor) {
      for (uint64_t i = 0; i < kTensor; ++i) {
        const uint64_t draw = random.Next();
        const uint64_t index = draw & 0xFFFF;
        const uint16_t value = distribution.values[index];
        before[i] = after[i] = value;
        if (static_cast<uint32_t>(draw >> 32) >= distribution.chances[index]) continue;
        const uint64_t kind = draw >> 16 & 0xFFFF;
        int step = kind % 10 != 0 ? 1 : 2 + static_cast<int>(kind / 10 % 6);
        if ((kind & 0x8000) != 0) step = -step;
        const auto magnitude = static_cast<int>(value & 0x7FFF) + step;
        if (magnitude < 0) continue;
        after[i] = static_cast<uint16_t>((value & 0x8000) | magnitude);
        ++changed;
      }
      SKERRY_TRY(old_file.Append(std::as_bytes(std::span(before))));
      SKERRY_TRY(new_file.Append(std::as_bytes(std::span(after))));
      map += fmt::format("{}\"model.layers.{}.weight\":\"{}\"", map.empty() ? "" : ",", tensor, name);
    }
  }
  const std::string index =
      fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})", tensors * kTensor * 2, map);
  for (const char* version : {"v000", "v001"}) {
    SKERRY_TRY(WriteFileAtomically(out / version / "model.safetensors.index.json", AsBytes(index)));
    SKERRY_TRY(WriteFileAtomically(out / version / "config.json", AsBytes(R"({"architectures":["Generated"]})")));
  }
  fmt::print("{}: 2 x {} tensors, {:.2f} GiB each, {} elements changed ({:.4f} %)\n", out.string(), tensors,
             static_cast<double>(tensors * kTensor * 2) / 0x1p30, changed,
             100 * static_cast<double>(changed) / static_cast<double>(tensors * kTensor));
  return {};
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: generate OUT GIB DENSITY [SEED]\n");
    return 2;
  }
  const auto status = skerry::Generate(argv[1], std::atof(argv[2]), std::atof(argv[3]),
                                       argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
  if (!status) fmt::print(stderr, "generate: {}\n", status.error().message);
  return status ? 0 : 1;
}
