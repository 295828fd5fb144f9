#include "core/update.h"

namespace laconic::raw {
namespace {

void require_same(const char* where, const Tensor& w, const Tensor& x, const char* what) {
  require<ShapeError>(x.elements() == w.elements() && x.layout() == Layout::plain && w.layout() == Layout::plain, where,
                      ": the parameter is ", w.shape(), " ", w.layout(), " but its ", what, " is ", x.shape(), " ",
                      x.layout(), ". Both must be plain and of one size.");
  require<ShapeError>(x.device() == w.device(), where, ": the parameter is on ", w.device(), " but its ", what, " on ",
                      x.device(), ". Move one of them.");
}

}  // namespace

void sgd(const Tensor& w, const Tensor& g, const Tensor& buffer, const SgdStep& step) {
  require_same("sgd", w, g, "gradient");
  if (buffer.defined()) require_same("sgd", w, buffer, "momentum");
  float* momentum = buffer.defined() ? buffer.data<float>() : nullptr;
  LACONIC_KERNEL(w.device(), sgd(w.data<float>(), g.data<float>(), momentum, w.elements(), step));
  w.bump_version();
}

void adam(const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v, const AdamStep& step) {
  require_same("adam", w, g, "gradient");
  require_same("adam", w, m, "first moment");
  require_same("adam", w, v, "second moment");
  LACONIC_KERNEL(w.device(),
                 adam(w.data<float>(), g.data<float>(), m.data<float>(), v.data<float>(), w.elements(), step));
  w.bump_version();
}

void clamp(const Tensor& x, float limit) {
  LACONIC_KERNEL(x.device(), clamp(x.data<float>(), limit, x.elements()));
  x.bump_version();
}

}  // namespace laconic::raw
