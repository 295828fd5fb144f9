#include "apps/simulate/curves.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "apps/svg.h"
#include "apps/text.h"
#include "core/atomic_file.h"
#include "core/error.h"

namespace laconic {
namespace {

// The colours of Okabe and Ito, which are told apart by those who do not see all colours.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};
// Pixels: figures of the axis stand at the left, names of curves at the right.
constexpr double kLeft = 70, kPlot = 560, kRight = 190, kHeight = 360;

/// A range of one axis, from a power of `base` to another.
struct Axis {
  Axis(double base, double least, double most)
      : base(base), low(std::floor(log(least) + 1e-9)), high(std::max(std::ceil(log(most) - 1e-9), low + 1)) {}
  double log(double value) const { return std::log(value) / std::log(base); }
  double part(double value) const { return (log(value) - low) / (high - low); }
  double base, low, high;
};

}  // namespace

void draw_curves(const std::vector<Curve>& curves, const std::string& caption, const std::string& file) {
  double few = 1e9, many = 0, least = 1e300, most = 0;
  std::size_t longest = 0;
  for (const Curve& c : curves) {
    longest = std::max(longest, c.points.size());
    for (const Curve::Point& p : c.points) {
      few = std::min<double>(few, p.workers), many = std::max<double>(many, p.workers);
      least = std::min(least, p.rate), most = std::max(most, p.workers * p.alone);
    }
  }
  require<UsageError>(longest > 1, "one number of workers makes no curve (--svg): give more, as --workers 1..1024");
  const Axis across(2, few, many), up(10, least, most);
  Svg svg(kLeft + kPlot + kRight);
  std::istringstream lines(caption);
  for (std::string line; std::getline(lines, line); svg.y += 15) svg.text(8, svg.y + 12, line, 12);
  const double top = svg.y + 24, bottom = top + kHeight;
  const auto x = [&](double workers) { return kLeft + kPlot * across.part(workers); };
  const auto y = [&](double rate) { return bottom - kHeight * up.part(rate); };
  svg.text(8, top - 10, "samples a second", 12);
  for (double e = up.low; e <= up.high; ++e) {
    const double rate = std::pow(10, e);
    svg.line(kLeft, y(rate), kLeft + kPlot, y(rate), "#ddd");
    svg.text(kLeft - 6, y(rate) + 4, human_count(rate), 11, "end");
  }
  for (double e = across.low; e <= across.high; ++e) {
    const double workers = std::exp2(e);
    svg.line(x(workers), top, x(workers), bottom, "#eee");
    svg.text(x(workers), bottom + 16, fmt::format("{:.0f}", workers), 11, "middle");
  }
  svg.text(kLeft + kPlot / 2, bottom + 34, "workers", 12, "middle");
  const double alone = curves[0].points[0].alone;
  svg.line(x(few), y(few * alone), x(many), y(many * alone), "#888", "5 4");
  svg.text(kLeft + kPlot + 8, y(many * alone) + 4, "ideal", 11, "start", "#888");
  std::vector<std::pair<double, std::size_t>> names;  // where each curve ends
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const char* const colour = kColours[c % std::size(kColours)];
    std::string path;
    for (const Curve::Point& p : curves[c].points)
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x(p.workers), y(p.rate));
    svg.add(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)", path, colour);
    for (const Curve::Point& p : curves[c].points)
      svg.add(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"><title>{} workers: {} samples a second, {:.0f} % of ideal</title></circle>)",
          x(p.workers), y(p.rate), colour, p.workers, human_count(p.rate), 100 * p.rate / (p.workers * p.alone));
    names.emplace_back(y(curves[c].points.back().rate), c);
  }
  std::sort(names.begin(), names.end());
  double free = y(many * alone) + 16;  // below the last name
  for (const auto& [at, c] : names) {
    const double here = std::max(at + 4, free);
    svg.text(kLeft + kPlot + 8, here, curves[c].label, 12, "start", kColours[c % std::size(kColours)], "bold");
    free = here + 15;
  }
  svg.y = std::max(bottom + 44, free);
  AtomicFile out(file);
  out.write(svg.whole());
  out.commit();
}

}  // namespace laconic
