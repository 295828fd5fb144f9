#pragma once
#include "layers/module.h"

namespace laconic {

/// A vector per symbol: y[..., :] = w[x[...], :].
///   x : i64, [T, B] or [n]   ->   y : [T, B, dim] or [n, dim]
///   w : [vocabulary, dim] "weight"   ~ Normal(0, 1)  (PyTorch's default)
/// Throws DataError that names the first index outside of [0, vocabulary).
class Embedding final : public Module {
 public:
  struct Options {
    int vocabulary = 0, dim = 0;
    Initializer init = nullptr;  ///< of w, instead of that
  };
  explicit Embedding(Options o);
  const std::shared_ptr<Parameter>& weight() const { return w_; }  ///< for a Linear that shares it

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<Parameter> w_;
};

}  // namespace laconic
