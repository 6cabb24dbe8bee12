// The tables and the JSON of bench/codec.
#ifndef SKERRY_BENCH_REPORT_H_
#define SKERRY_BENCH_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "measure_bytes.h"
#include "measure_speed.h"

namespace skerry {

void PrintBytes(const std::vector<DeltaCost>& steps);
void PrintSpeed(const std::vector<DeltaSpeed>& steps);
nlohmann::ordered_json BytesJson(const std::vector<DeltaCost>& steps);
nlohmann::ordered_json SpeedJson(const std::vector<DeltaSpeed>& steps);

}  // namespace skerry

#endif  // SKERRY_BENCH_REPORT_H_
