#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace laconic::dist {

/// How a training that sends little begins, `--warmup`:
///   none      with the density that it keeps
///   dense:E   with dense gradients in the first E epochs (what the RedSync paper does)
///   ramp:E    with a density that falls by equal factors, over E epochs from 0.25^(4/E): for ramp:4 25 %, 6.25 %,
///             1.5625 %, 0.4 %, then the one that it keeps (DGC)
struct Warmup {
  enum class Kind : std::uint8_t { none, dense, ramp };
  Kind kind = Kind::none;
  std::int64_t epochs = 0;

  /// throws UsageError
  static Warmup parse(const std::string& text, const std::string& option);
  std::string to_string() const;

  /// The density in an epoch (first 0) of a training that is to keep `density`; nothing where gradients are dense.
  std::optional<double> density_in(std::int64_t epoch, double density) const;
  /// Whether gradients are dense in a step (first 1).
  bool dense_in_step(std::int64_t step, std::int64_t steps_per_epoch) const;
};

}  // namespace laconic::dist
