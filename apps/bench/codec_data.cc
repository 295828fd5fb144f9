#include "apps/bench/codec_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/values.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"

namespace laconic {
namespace {

struct Mix {
  const char* name;
  float small, middle, large;  // shares; the rest is 1 and above
};
constexpr Mix kMixes[] = {{"alexnet", 0.749f, 0.039f, 0.211f}, {"hdc", 0.92f, 0.065f, 0.015f}, {"whole", 0, 0, 0}};

float drawn(const Mix& mix, Random& random) {
  const float which = random.uniform(), sign = random.below(2) ? 1.0f : -1.0f;
  const auto between = [&](float low, float high) { return sign * std::exp2(random.uniform(low, high)); };
  if (which < mix.small) return between(-24, -10);
  if (which < mix.small + mix.middle) return between(-10, -5);
  if (which < mix.small + mix.middle + mix.large) return between(-5, 0);
  return between(0, 1);
}

}  // namespace

Tensor codec_data(const std::string& name, std::int64_t elements) {
  constexpr std::int64_t kBlock = 4096;  // values that are drawn with one key
  for (const Mix& mix : kMixes) {
    if (name != mix.name) continue;
    const Tensor x = Tensor::empty({elements});
    float* const to = x.data<float>();
    parallel_for((elements + kBlock - 1) / kBlock, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        Random random(0, Purpose::test, static_cast<std::uint64_t>(b), static_cast<std::uint64_t>(mix.name[0]));
        for (std::int64_t i = b * kBlock; i < std::min(elements, (b + 1) * kBlock); ++i) to[i] = drawn(mix, random);
      }
    });
    return x;
  }
  const auto colon = name.rfind(".safetensors:");
  const std::string path = colon == std::string::npos ? name : name.substr(0, colon + 12);
  require<UsageError>(std::filesystem::exists(path), "'", name,
                      "' is neither a distribution nor a file (--data): there are alexnet, hdc, whole");
  return select_data(name, 0);
}

}  // namespace laconic
