#include "compress/cuda/bytes.cuh"
#include "compress/cuda/ordered_sum.cuh"
#include "compress/cuda/scatter.h"

namespace laconic::compress::cuda {
namespace {

/// f(j, index) for all indices.
template <class F>
void each(const std::uint32_t* indices, std::size_t count, std::size_t n, F f) {
  Report* const to_host = report();
  const std::int64_t limit = size(n);
  map(size(count), [=] __device__(std::int64_t j) {
    const std::uint32_t i = indices[j];
    if (i >= limit)
      tell(to_host, Finding::index, j, i, limit);
    else
      f(j, i);
  });
}

}  // namespace

void clear_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n) {
  each(indices, count, n, [=] __device__(std::int64_t, std::uint32_t i) {
    v[i] = 0;
    if (u) u[i] = 0;
  });
}
void subtract_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n,
                 const float* values, bool single) {
  each(indices, count, n, [=] __device__(std::int64_t j, std::uint32_t i) {
    v[i] -= values[single ? 0 : j];
    if (u) u[i] = 0;
  });
}
void add_at(float* dense, const std::uint32_t* indices, std::size_t count, std::size_t n, float factor,
            const float* values, bool single) {
  each(indices, count, n,
       [=] __device__(std::int64_t j, std::uint32_t i) { dense[i] += factor * values[single ? 0 : j]; });
}
void gather_at(float* to, const float* from, const std::uint32_t* indices, std::size_t count, std::size_t n) {
  each(indices, count, n, [=] __device__(std::int64_t j, std::uint32_t i) { to[j] = from[i]; });
}
void put_at(float* to, const float* from, const std::uint32_t* indices, std::size_t count, std::size_t n) {
  each(indices, count, n, [=] __device__(std::int64_t j, std::uint32_t i) { to[i] = from[j]; });
}

void check_indices(const std::uint32_t* indices, std::size_t count, std::size_t n, std::uint32_t* wrong) {
  const std::int64_t limit = size(n);
  map(size(count), [=] __device__(std::int64_t j) {
    if (indices[j] >= limit || (j > 0 && indices[j - 1] >= indices[j])) atomicOr(wrong, 1u);
  });
}

void put_number(std::byte* to, std::uint32_t number) {
  map(1, [=] __device__(std::int64_t) { put_word<std::uint32_t>(to, number); });
}
void check_number(const std::byte* at, std::uint32_t number, std::uint32_t* wrong) {
  map(1, [=] __device__(std::int64_t) {
    if (get_word<std::uint32_t>(at) != number) atomicOr(wrong, 1u);
  });
}

void accumulate_layer(const float* gradient, float* accumulated, std::size_t n, bool squares, double* sum) {
  const auto term = [=] __device__(std::int64_t i, bool) {
    float x = gradient[i];
    if (accumulated) x = accumulated[i] += x;
    const auto v = static_cast<double>(x);
    return squares ? v * v : fabs(v);
  };
  ordered_sums<1>(term, size(n), sum);
}

void mean_of(const float* values, std::size_t count, float* mean) {
  Temporary<double> sum(1);
  double* const there = sum.data();
  ordered_sums<1>([=] __device__(std::int64_t i, bool) { return static_cast<double>(values[i]); }, size(count), there);
  const auto of = static_cast<double>(count);
  map(1, [=] __device__(std::int64_t) { *mean = of > 0 ? static_cast<float>(*there / of) : 0.0f; });
}

void put_step_by(float* value, float* before, float* delta, std::size_t n, float weight) {
  map(size(n), [=] __device__(std::int64_t i) {
    const float now = value[i], then = before[i];
    delta[i] += weight * (now - then);
    value[i] = then;
    before[i] = now;
  });
}

void keep_left(float* left, const float* x, const float* sent, std::size_t n) {
  map(size(n), [=] __device__(std::int64_t i) {
    const float rest = x[i] - sent[i];
    left[i] = rest - rest == 0.0f ? rest : 0.0f;
  });
}

}  // namespace laconic::compress::cuda
