#include "dist/method/warmup.h"

#include <algorithm>
#include <cmath>

#include "core/base/parse.h"

namespace laconic::dist {

Warmup Warmup::parse(const std::string& text, const std::string& option) {
  constexpr std::int64_t kMostEpochs = 1'000'000;
  if (text == "none") return {};
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::int64_t epochs = number_from<std::int64_t>(text.substr(colon + 1)).value_or(0);
  require<UsageError>((kind == "dense" || kind == "ramp") && epochs >= 1 && epochs <= kMostEpochs, "'", text,
                      "' is no warm-up (", option, "): give none, dense:E or ramp:E with E epochs, as ramp:4");
  return {kind == "dense" ? Kind::dense : Kind::ramp, epochs};
}

std::string Warmup::to_string() const {
  if (kind == Kind::none) return "none";
  return concat(kind == Kind::dense ? "dense:" : "ramp:", epochs);
}

std::optional<double> Warmup::density_in(std::int64_t epoch, double density) const {
  if (epoch >= epochs || kind == Kind::none) return density;
  if (kind == Kind::dense) return std::nullopt;
  const double steps = static_cast<double>(epoch + 1) * 4 / static_cast<double>(epochs);
  return std::max(density, std::pow(0.25, steps));
}

bool Warmup::dense_in_step(std::int64_t step, std::int64_t steps_per_epoch) const {
  return kind == Kind::dense && (step - 1) / std::max<std::int64_t>(1, steps_per_epoch) < epochs;
}

}  // namespace laconic::dist
