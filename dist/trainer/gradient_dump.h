#pragma once
#include <cstdint>
#include <string>

#include "core/parameter.h"
#include "core/slice.h"

namespace laconic {

/// Writes gradients as backward leaves them, before anything else sees them, and the residuals that elements are about
/// to be chosen from, at steps 1, 10, 100, 1000, …: material for trying selectors and codecs.
///
///   DIR/step-000100/conv1.weight.f32            this rank's own gradient, plain order, little-endian float32, no
///                                               header
///   DIR/step-000100/conv1.weight.residual.f32   V, with what this step has added (--sync redsync and its neighbours)
///
/// Stands between the arena and its listener. throws DataError: a file cannot be written
class GradientDump final : public ParameterListener {
 public:
  GradientDump(std::string directory, ParameterListener& next) : directory_(std::move(directory)), next_(next) {}

  void begin_step(std::int64_t step);
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override { next_.before_forward(parameter, rows); }
  void residual(const Parameter& parameter, Slice<const float> values) const;

 private:
  std::string path(const ParameterInfo& info, const char* ending) const;

  const std::string directory_;
  ParameterListener& next_;
  std::string folder_;  // of this step; empty: it is not written
};

}  // namespace laconic
