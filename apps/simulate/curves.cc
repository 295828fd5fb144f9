#include "apps/simulate/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "apps/look/svg.h"
#include "apps/common/text.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/parse.h"

namespace laconic {
namespace {

// The colours of Okabe and Ito, which are told apart by those who do not see all colours.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};
// Pixels: figures of the axis stand at the left, names of curves at the right.
constexpr double kLeftMargin = 70, kPlotWidth = 560, kRightMargin = 190, kPlotHeight = 360;

/// A range of one axis, from a power of `base` to another.
struct Range {
  Range(double base, double least, double most)
      : base(base), low(std::floor(log(least) + 1e-9)), high(std::max(std::ceil(log(most) - 1e-9), low + 1)) {}
  double log(double value) const { return std::log(value) / std::log(base); }
  double part(double value) const { return (log(value) - low) / (high - low); }
  double base, low, high;
};

/// The axis of a setting's values: where each stands, as a part of the axis, and the marks below it.
class Across {
 public:
  explicit Across(const std::vector<Curve>& curves) {
    std::vector<std::string> values;
    for (const Curve& c : curves)
      for (const Curve::Point& p : c.points)
        if (std::find(values.begin(), values.end(), p.at) == values.end()) values.push_back(p.at);
    std::vector<double> numbers;
    for (const std::string& value : values)
      if (const auto number = number_from<double>(value); number && *number > 0) numbers.push_back(*number);
    if (numbers.size() < values.size()) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        parts_[values[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
        marks.emplace_back(parts_[values[i]], values[i]);
      }
      return;
    }
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    const Range range(*least >= 1 ? 2 : 10, *least, *most);
    for (std::size_t i = 0; i < values.size(); ++i) parts_[values[i]] = range.part(numbers[i]);
    const double each = std::ceil((range.high - range.low) / 16);  // they must not touch one another
    for (double e = range.low; e <= range.high; e += each)
      marks.emplace_back(range.part(std::pow(range.base, e)), fmt::format("{:g}", std::pow(range.base, e)));
  }
  double part(const std::string& value) const { return parts_.at(value); }
  std::vector<std::pair<double, std::string>> marks{};

 private:
  std::map<std::string, double> parts_{};
};

}  // namespace

void draw_curves(const std::vector<Curve>& curves, const std::string& axis, const std::string& caption,
                 const std::string& file) {
  double least = 1e300, most = 0;
  std::size_t longest = 0;
  for (const Curve& c : curves) {
    longest = std::max(longest, c.points.size());
    for (const Curve::Point& p : c.points) least = std::min(least, p.rate), most = std::max(most, p.workers * p.alone);
  }
  if (axis == "workers")
    require<UsageError>(longest > 1, "one number of workers makes no curve (--svg): give more, as --workers 1..1024");
  require<UsageError>(longest > 1, "one value makes no curve (--svg): give --sweep more of them");
  require<UsageError>(least > 0 && std::isfinite(least) && std::isfinite(most),
                      "a step that takes no time has no rate to draw (--svg): give --compute times above 0");
  const Across across(curves);
  const Range up(10, least, most);
  Svg svg(kLeftMargin + kPlotWidth + kRightMargin);
  std::istringstream lines(caption);
  for (std::string line; std::getline(lines, line); svg.y += 15) svg.text(8, svg.y + 12, line, 12);
  const double top = svg.y + 24, bottom = top + kPlotHeight;
  const auto x = [&](const Curve::Point& p) { return kLeftMargin + kPlotWidth * across.part(p.at); };
  const auto y = [&](double rate) { return bottom - kPlotHeight * up.part(rate); };
  svg.text(8, top - 10, "samples a second", 12);
  for (double e = up.low; e <= up.high; ++e) {
    const double rate = std::pow(10, e);
    svg.line(kLeftMargin, y(rate), kLeftMargin + kPlotWidth, y(rate), "#ddd");
    svg.text(kLeftMargin - 6, y(rate) + 4, human_count(rate), 11, "end");
  }
  for (const auto& [part, label] : across.marks) {
    const double at = kLeftMargin + kPlotWidth * part;
    svg.line(at, top, at, bottom, "#eee");
    svg.text(at, bottom + 16, label, 11, "middle");
  }
  svg.text(kLeftMargin + kPlotWidth / 2, bottom + 34, axis, 12, "middle");
  const auto path = [&](const Curve& curve, auto height) {
    std::string points;
    for (const Curve::Point& p : curve.points)
      points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x(p), y(height(p)));
    return points;
  };
  const auto value_of = [&](const Curve::Point& p) {
    return axis == "workers" ? p.at + " workers" : Svg::escaped(axis + " " + p.at);
  };
  const auto ideal = [](const Curve::Point& p) { return p.workers * p.alone; };
  svg.add(R"(<path d="M{}" fill="none" stroke="#888" stroke-dasharray="5 4"/>)", path(curves[0], ideal));
  const double ideal_end = y(ideal(curves[0].points.back()));
  svg.text(kLeftMargin + kPlotWidth + 8, ideal_end + 4, "ideal", 11, "start", "#888");
  std::vector<std::pair<double, std::size_t>> names;  // where each curve ends
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const char* const colour = kColours[c % std::size(kColours)];
    svg.add(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)",
            path(curves[c], [](const Curve::Point& p) { return p.rate; }), colour);
    for (const Curve::Point& p : curves[c].points)
      svg.add(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"><title>{}: {} samples a second, {:.0f} % of ideal</title></circle>)",
          x(p), y(p.rate), colour, value_of(p), human_count(p.rate), 100 * p.rate / ideal(p));
    names.emplace_back(y(curves[c].points.back().rate), c);
  }
  std::sort(names.begin(), names.end());
  double free = ideal_end + 16;  // below the last name
  for (const auto& [at, c] : names) {
    const double here = std::max(at + 4, free);
    svg.text(kLeftMargin + kPlotWidth + 8, here, curves[c].label, 12, "start", kColours[c % std::size(kColours)],
             "bold");
    free = here + 15;
  }
  svg.y = std::max(bottom + 44, free);
  AtomicFile out(file);
  out.write(svg.whole());
  out.commit();
}

}  // namespace laconic
