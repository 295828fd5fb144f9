#include "optim/clip.h"

#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/raw.h"
#include "core/update.h"

namespace laconic {

Clip Clip::parse(const std::string& text) {
  if (text.empty() || text == "none") return {};
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const char* const names[] = {"none", "norm", "value"};
  const std::string near = nearest(kind, names, 3);
  require<UsageError>(kind == "norm" || kind == "value", "--clip: ", text, " is neither none, norm:X nor value:X.",
                      near.empty() ? "" : concat(" Did you mean ", near, near == "none" ? "?" : ":X?"));
  Clip clip{.kind = kind == "norm" ? Kind::norm : Kind::value};
  const char *at = text.data() + (colon == std::string::npos ? text.size() : colon + 1),
             *end = text.data() + text.size();
  const auto [next, error] = std::from_chars(at, end, clip.limit);
  require<UsageError>(error == std::errc() && next == end && clip.limit > 0 && std::isfinite(clip.limit),
                      "--clip: ", text, " needs a number above 0 behind ", kind, ":. Example: ", kind, ":1.");
  return clip;
}

double gradient_sum_of_squares(const ParameterArena& arena) {
  std::vector<Tensor> gradients;
  for (const auto& p : arena.parameters()) gradients.push_back(p->grad());
  return raw::sum_of_squares(gradients);
}

double clip_scale(double sum_of_squares, double limit) {
  const double norm = std::sqrt(sum_of_squares);
  const double scale = limit / (norm + 1e-6);
  return scale >= 1 ? 1 : scale;
}

void clip_value(const Tensor& gradient, double limit) { raw::clamp(gradient, static_cast<float>(limit)); }

}  // namespace laconic
