#pragma once
#include <string>
#include <vector>

namespace laconic {

/// Samples a second of one set, over numbers of workers.
struct Curve {
  struct Point {
    int workers;
    double rate;   ///< of all workers
    double alone;  ///< of one that exchanges nothing
  };
  std::string label;
  std::vector<Point> points;
};

/// Writes a picture of them, with both axes logarithmic, and the line that the first set would follow if an exchange
/// took no time.   throws UsageError if no curve has two points; DataError if the file cannot be written
void draw_curves(const std::vector<Curve>& curves, const std::string& caption, const std::string& file);

}  // namespace laconic
