#pragma once
#include <string>
#include <vector>

namespace laconic {

/// Samples a second of one set, over the values of one setting.
struct Curve {
  struct Point {
    std::string at;  ///< the setting's value
    int workers;
    double rate;   ///< of all workers
    double alone;  ///< of one that exchanges nothing
  };
  std::string label;
  std::vector<Point> points;
};

/// Writes a picture of them, with logarithmic axes, and the line that the first set would follow if an exchange took no
/// time. Values that are no positive numbers stand at equal distances, in their order.
///   axis     the setting: "workers"
///   throws   UsageError if no curve has two points; DataError if the file cannot be written
void draw_curves(const std::vector<Curve>& curves, const std::string& axis, const std::string& caption,
                 const std::string& file);

}  // namespace laconic
