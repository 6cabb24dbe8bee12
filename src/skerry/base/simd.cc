#include "skerry/base/simd.h"

#include <hwy/targets.h>

#include <bit>
#include <cstdint>
#include <cstdlib>

namespace skerry {
namespace {

bool g_scalar = false;

// Everything better than `best`: Highway numbers better targets with lower bits.
int64_t BetterThan(int64_t best) { return best - 1; }

Status Apply(std::string_view name) {
  g_scalar = name == "scalar";
  int64_t disabled = 0;
  if (name == "ssse3") {
    disabled = BetterThan(HWY_SSSE3);
  } else if (name == "sse4") {
    disabled = BetterThan(HWY_SSE4);
  } else if (name == "avx2") {
    disabled = BetterThan(HWY_AVX2);
  } else if (name == "avx3") {
    disabled = BetterThan(HWY_AVX3);
  } else if (!name.empty() && name != "best" && !g_scalar) {
    return Fail(Code::kInvalid, "SKERRY_SIMD is '{}', but must be one of best, avx3, avx2, sse4, ssse3, scalar", name);
  }
  hwy::DisableTargets(disabled);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return {};
}

const bool g_from_environment = [] {
  const char* name = std::getenv("SKERRY_SIMD");
  return name != nullptr && Apply(name).has_value();
}();

}  // namespace

bool SimdIsScalar() { return g_scalar; }

Status SetSimd(std::string_view name) { return Apply(name); }

std::string_view SimdName() {
  (void)g_from_environment;
  if (g_scalar) return "scalar";
  const auto supported = static_cast<uint64_t>(hwy::SupportedTargets());
  return hwy::TargetName(static_cast<int64_t>(supported & (~supported + 1)));
}

}  // namespace skerry
