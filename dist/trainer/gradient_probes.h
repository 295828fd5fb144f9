#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/parameter.h"
#include "core/slice.h"
#include "dist/trainer/report.h"

namespace laconic {

/// Looks at a worker's own gradients as backward leaves them, before anything else sees them. It stands between the
/// arena and the listener behind it.
///
///   watch   sees whether they are finite: those of parameters of at most kMost elements, in host memory, since what is
///           no number in an activation's gradient comes to every bias below it. Some microseconds for each of them
///   counts  counts how large their elements are, in steps 1, 10, 100, 1000, …: some 2 ns an element there
///   dump    writes them, and the residuals that elements are about to be chosen from, in these steps: material for
///           trying selectors and codecs
///               DIR/step-000100/conv1.weight.f32            plain order, little-endian float32, no header
///               DIR/step-000100/conv1.weight.residual.f32   V, with what this step has added (`sync` redsync and its
///                                                           neighbours)
///           throws DataError: a file cannot be written
class GradientProbes final : public ParameterListener {
 public:
  static constexpr std::int64_t kMost = 16 << 10;

  struct Options {
    int rank = 0;
    bool watch = false;
    bool stops =
        false;  ///< a gradient that is not finite ends the training: the sum over workers would spoil the weights
    bool counts = false;
    std::string dump{};  ///< directory; empty: none
    bool any() const { return watch || counts || !dump.empty(); }
  };
  GradientProbes(ParameterListener& next, Options options) : next_(next), o_(std::move(options)) {}

  void begin_step(std::int64_t step);
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override { next_.before_forward(parameter, rows); }
  /// Writes the residual of a parameter, if this step's are written.
  void residual(const Parameter& parameter, Slice<const float> values) const;

  /// After backward.   throws Error where one was not finite: names parameter, rank and step
  void require_finite() const;
  /// The gradient of `p` was looked at, as all others of its size, and none was not finite.
  bool saw_finite(const Parameter& p) const { return o_.watch && not_finite_.empty() && looks_at(p); }
  /// What was counted since begin_step(), in the order of backward.
  std::vector<GradientCounts> take_counts() { return std::move(counts_); }

 private:
  static bool looks_at(const Parameter& p) { return p.info.elements <= kMost; }
  void count(const Parameter& p, Slice<const float> values);

  ParameterListener& next_;
  const Options o_;
  std::int64_t step_ = 0;
  bool looks_ = false;      // in this step
  std::string not_finite_;  // the first such parameter
  std::string folder_;      // of this step; empty: none is written
  std::vector<GradientCounts> counts_;
};

}  // namespace laconic
