#include "optim/clip.h"

#include <cmath>

#include "core/base/parse.h"
#include "core/raw.h"
#include "core/update.h"

namespace laconic {

Clip Clip::parse(const std::string& text, const std::string& where) {
  if (text == "none") return {};
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const float limit = colon == std::string::npos ? 0 : number_from<float>(text.substr(colon + 1)).value_or(0);
  if ((kind != "norm" && kind != "value") || limit <= 0)
    refuse("'" + text + "' is not a clipping rule", where, "give norm:X or value:X with X above 0, as norm:5, or none");
  return {kind == "norm" ? Kind::norm : Kind::value, limit};
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
