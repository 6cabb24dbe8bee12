#include "report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "skerry/base/simd.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

// 0 where there is nothing to divide by.
double Ratio(double a, double b) { return b == 0 ? 0.0 : a / b; }
double Ratio(uint64_t a, uint64_t b) { return Ratio(static_cast<double>(a), static_cast<double>(b)); }
double GbPerSecond(uint64_t bytes, const Best& best) { return static_cast<double>(bytes) / best.seconds / 1e9; }
double Share(const Bound& bound) { return 100 * Ratio(bound.changed, bound.elements); }

DeltaCost SumOf(const std::vector<DeltaCost>& steps) {
  DeltaCost sum;
  sum.step = "all";
  for (const DeltaCost& step : steps) sum.Add(step);
  return sum;
}

// All columns of the table of bytes; nothing where it was not measured.
struct Column {
  const char* name;
  std::optional<double> (*value)(const DeltaCost&);
};
std::optional<double> Number(const std::optional<uint64_t>& value) {
  if (!value) return {};
  return static_cast<double>(*value);
}
constexpr Column kColumns[] = {
    {"fast", [](const DeltaCost& c) { return Number(c.skerry[0]); }},
    {"compact", [](const DeltaCost& c) { return Number(c.skerry[1]); }},
    {"NeMo", [](const DeltaCost& c) { return Number(c.nemo); }},
    {"slime", [](const DeltaCost& c) { return Number(c.slime); }},
    {"int32+bits", [](const DeltaCost& c) { return Number(c.positions); }},
    {"zstd -19", [](const DeltaCost& c) { return Number(c.patch_from); }},
    {"bsdiff", [](const DeltaCost& c) { return Number(c.bsdiff); }},
    {"order 0", [](const DeltaCost& c) { return std::optional(c.Total().order0); }},
    {"given exp", [](const DeltaCost& c) { return std::optional(c.Total().given_exponent); }},
};

void PrintRatios(const char* label, const DeltaCost& cost, double to) {
  fmt::print("{:>10} {:>10} {:>9}", label, "", "");
  for (const Column& column : kColumns) {
    const auto value = column.value(cost);
    fmt::print(" {:>10}", value ? fmt::format("{:.3f}", Ratio(*value, to)) : "-");
  }
  fmt::print("\n");
}

void PrintDTypes(const DeltaCost& sum) {
  fmt::print("\nby dtype, all steps; payloads of blocks, without the rest of the file\n");
  fmt::print("{:>12} {:>12} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10} {:>7} {:>7} {:>8} {:>8}\n", "", "elements",
             "changed", "density", "fast", "compact", "order 0", "given exp", "/ord 0", "/exp", "B/change", "blocks");
  for (const auto& [dtype, cost] : sum.dtypes) {
    fmt::print("{:>12} {:>12} {:>10} {:>8.4f}% {:>10} {:>10} {:>10.0f} {:>10.0f} {:>7.3f} {:>7.3f} {:>8.3f} {:>8}\n",
               DTypeName(dtype), cost.bound.elements, cost.bound.changed, Share(cost.bound), cost.payload[0],
               cost.payload[1], cost.bound.order0, cost.bound.given_exponent,
               Ratio(static_cast<double>(cost.payload[0]), cost.bound.order0),
               Ratio(static_cast<double>(cost.payload[1]), cost.bound.given_exponent),
               Ratio(cost.payload[1], cost.bound.changed), cost.blocks[1]);
  }
  PerLevel rest = sum.skerry;
  for (const auto& [dtype, cost] : sum.dtypes) {
    for (size_t level = 0; level < rest.size(); ++level) rest[level] -= cost.payload[level];
  }
  fmt::print("{:>12} {:>12} {:>10} {:>9} {:>10} {:>10}\n", "rest of file", "", "", "", rest[0], rest[1]);
}

Json CostJson(const DeltaCost& cost) {
  const Bound total = cost.Total();
  const auto optional = [](const std::optional<uint64_t>& value) { return value ? Json(*value) : Json(nullptr); };
  Json dtypes = Json::object();
  for (const auto& [dtype, one] : cost.dtypes) {
    dtypes[std::string(DTypeName(dtype))] = {
        {"elements", one.bound.elements}, {"changed", one.bound.changed},
        {"fast_payload", one.payload[0]}, {"compact_payload", one.payload[1]},
        {"fast_blocks", one.blocks[0]},   {"compact_blocks", one.blocks[1]},
        {"order_0", one.bound.order0},    {"given_exponent", one.bound.given_exponent}};
  }
  return {{"step", cost.step},
          {"elements", total.elements},
          {"changed", total.changed},
          {"bytes",
           {{"fast", cost.skerry[0]},
            {"compact", cost.skerry[1]},
            {"nemo", cost.nemo},
            {"slime", cost.slime},
            {"int32_bits", cost.positions},
            {"zstd_19_patch_from", optional(cost.patch_from)},
            {"bsdiff", optional(cost.bsdiff)},
            {"order_0", total.order0},
            {"given_exponent", total.given_exponent}}},
          {"dtypes", std::move(dtypes)}};
}

// "1.23 (0.45)": GB/s, and as a ratio to the scan.
std::string Rate(const DeltaSpeed& step, const Best& best, const Best& scan) {
  return fmt::format("{:.2f} ({:.2f})", GbPerSecond(step.bytes, best), scan.seconds / best.seconds);
}

double SpeedUp(const Best& one, const Best& two) { return one.seconds / two.seconds; }

void PrintSpeed(const DeltaSpeed& step) {
  fmt::print("\n{}: {:.3f} GB, {} of {} units changed ({:.4f} %)\n", step.step, static_cast<double>(step.bytes) / 1e9,
             step.changed, step.units, 100 * Ratio(step.changed, step.units));
  fmt::print("  {:>7} {:>12} {:>14} {:>14} {:>8} {:>8} {:>9} {:>14}\n", "threads", "", "diff + encode", "apply",
             "(decode", "write)", "+journal", "first apply");
  for (size_t t = 0; t < step.threads.size(); ++t) {
    const ThreadsSpeed& threads = step.threads[t];
    for (size_t level = 0; level < kLevels.size(); ++level) {
      const LevelSpeed& mine = threads.levels[level];
      fmt::print("  {:>7} {:>12} {:>14} {:>14} {:>7.4f}s {:>7.4f}s {:>8.4f}s {:>14}\n", t + 1, kLevelNames[level],
                 Rate(step, mine.encode, threads.scan), Rate(step, mine.apply, threads.scan), mine.decode.seconds,
                 mine.write.seconds, mine.journal.seconds, Rate(step, mine.first_apply, threads.scan));
    }
    const auto peer = [&](const char* name, const PeerSpeed& speed) {
      fmt::print("  {:>7} {:>12} {:>14} {:>14}\n", t + 1, name, Rate(step, speed.encode, threads.scan),
                 Rate(step, speed.apply, threads.scan));
    };
    if (t == 0) {
      peer("NeMo", step.nemo);
      peer("slime", step.slime);
      peer("int32+bits", step.positions);
    }
    fmt::print("  {:>7} {:>12} {:>14}\n", t + 1, "memcpy", Rate(step, threads.copy, threads.scan));
    fmt::print("  {:>7} {:>12} {:>14}\n", t + 1, "scan", Rate(step, threads.scan, threads.scan));
  }
  for (size_t level = 0; level < kLevels.size(); ++level) {
    const LevelSpeed& mine = step.threads[0].levels[level];
    fmt::print("  {} to NeMo, 1 thread: bytes {:.3f} x, time to encode {:.2f} x, to decode and apply {:.2f} x\n",
               kLevelNames[level], Ratio(mine.bytes, step.nemo.bytes), mine.encode.seconds / step.nemo.encode.seconds,
               mine.apply.seconds / step.nemo.apply.seconds);
  }
  const auto& [one, two] = step.threads;
  fmt::print("  2 threads to 1: memcpy {:.2f} x, scan {:.2f} x", SpeedUp(one.copy, two.copy),
             SpeedUp(one.scan, two.scan));
  for (size_t level = 0; level < kLevels.size(); ++level) {
    fmt::print("; {} encode {:.2f} x, apply {:.2f} x", kLevelNames[level],
               SpeedUp(one.levels[level].encode, two.levels[level].encode),
               SpeedUp(one.levels[level].apply, two.levels[level].apply));
  }
  fmt::print("\n");
}

Json PeerJson(const PeerSpeed& speed) {
  return {{"bytes", speed.bytes}, {"encode_seconds", speed.encode.seconds}, {"apply_seconds", speed.apply.seconds}};
}

}  // namespace

void PrintBytes(const std::vector<DeltaCost>& steps) {
  fmt::print("bytes: Skerry's are whole files, every wire format with all it needs; the last two are bounds\n");
  fmt::print("{:>10} {:>10} {:>9}", "step", "changed", "density");
  for (const Column& column : kColumns) fmt::print(" {:>10}", column.name);
  fmt::print("\n");
  const auto line = [](const DeltaCost& cost) {
    const Bound total = cost.Total();
    fmt::print("{:>10} {:>10} {:>8.4f}%", cost.step, total.changed, Share(total));
    for (const Column& column : kColumns) {
      const auto value = column.value(cost);
      fmt::print(" {:>10}", value ? fmt::format("{:.0f}", *value) : "-");
    }
    fmt::print("\n");
  };
  for (const DeltaCost& step : steps) line(step);
  const DeltaCost sum = SumOf(steps);
  const Bound total = sum.Total();
  line(sum);
  PrintRatios("B/change", sum, static_cast<double>(total.changed));
  PrintRatios("x NeMo", sum, static_cast<double>(sum.nemo));
  PrintRatios("x order 0", sum, total.order0);
  PrintRatios("x giv. exp", sum, total.given_exponent);
  PrintDTypes(sum);
}

void PrintSpeed(const std::vector<DeltaSpeed>& steps) {
  fmt::print("\nspeed, {}: GB of one checkpoint a second (and as a ratio to the scan with as many threads)\n",
             SimdName());
  for (const DeltaSpeed& step : steps) PrintSpeed(step);
}

Json BytesJson(const std::vector<DeltaCost>& steps) {
  Json list = Json::array();
  for (const DeltaCost& step : steps) list.push_back(CostJson(step));
  return {{"steps", std::move(list)}, {"all", CostJson(SumOf(steps))}};
}

Json SpeedJson(const std::vector<DeltaSpeed>& steps) {
  Json list = Json::array();
  for (const DeltaSpeed& step : steps) {
    Json threads = Json::array();
    for (const ThreadsSpeed& one : step.threads) {
      Json item = {{"memcpy_seconds", one.copy.seconds}, {"scan_seconds", one.scan.seconds}};
      for (size_t level = 0; level < kLevels.size(); ++level) {
        const LevelSpeed& mine = one.levels[level];
        item[kLevelNames[level]] = {{"bytes", mine.bytes},
                                    {"encode_seconds", mine.encode.seconds},
                                    {"apply_seconds", mine.apply.seconds},
                                    {"first_apply_seconds", mine.first_apply.seconds},
                                    {"decode_seconds", mine.decode.seconds},
                                    {"write_seconds", mine.write.seconds},
                                    {"journal_seconds", mine.journal.seconds},
                                    {"encode_to_scan", one.scan.seconds / mine.encode.seconds},
                                    {"apply_to_scan", one.scan.seconds / mine.apply.seconds}};
      }
      threads.push_back(std::move(item));
    }
    list.push_back({{"step", step.step},
                    {"checkpoint_bytes", step.bytes},
                    {"units", step.units},
                    {"changed", step.changed},
                    {"threads", std::move(threads)},
                    {"nemo", PeerJson(step.nemo)},
                    {"slime", PeerJson(step.slime)},
                    {"int32_bits", PeerJson(step.positions)}});
  }
  return {{"simd", SimdName()}, {"steps", std::move(list)}};
}

}  // namespace skerry
