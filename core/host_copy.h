#pragma once
#include <vector>

#include "core/dispatch.h"
#include "core/memory.h"
#include "core/slice.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace laconic {

/// A slice's values for host code to read while this lives: themselves where host code can reach them, of a CUDA device
/// a copy, which is waited for. For what is written to files, compared, or computed on the host.
template <class T>
class HostCopy {
 public:
  explicit HostCopy(Slice<const T> values) : access_(values.device()), values_(values) {
    if (values.device().kind != Device::Kind::cuda) return;
    copy_.resize(values.size());
    copy_bytes(copy_.data(), kCpu, values.data(), values.device(), values.size_bytes());
    values_ = laconic::slice(std::as_const(copy_));
  }
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  Slice<const T> slice() const { return values_; }
  const T* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }
  std::size_t size_bytes() const { return values_.size_bytes(); }
  const T* begin() const { return values_.begin(); }
  const T* end() const { return values_.end(); }

 private:
  HostAccess access_;
  Slice<const T> values_;
  std::vector<T> copy_;
};

/// f(data) writes all of a slice's values by host code: in place where host code can reach them, for a CUDA device into
/// memory that is then copied there. It is not called for a ghost's.
template <class T, class F>
void write_on_host(Slice<T> x, F f) {
  if (x.device().kind != Device::Kind::cuda) return on_device(x.device(), [&] { f(x.data()); });
  std::vector<T> values(x.size());
  f(values.data());
  copy_bytes(x.data(), x.device(), values.data(), kCpu, x.size_bytes());
}

/// f(values of x, float32, in host memory), which are x's afterwards. A ghost has none.
template <class F>
void change_on_host(const Tensor& x, F f) {
  if (x.device().kind != Device::Kind::cuda) return on_device(x.device(), [&] { f(x.data<float>()); });
  const Tensor here = Tensor::empty(x.shape());
  here.copy_from(x);
  f(here.data<float>());
  x.copy_from(here);
}

}  // namespace laconic
