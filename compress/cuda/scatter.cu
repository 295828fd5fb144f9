#include "compress/cuda/bytes.cuh"
#include "compress/cuda/ordered_sum.cuh"
#include "compress/cuda/scatter.h"

namespace laconic::compress::cuda {
namespace {

std::int64_t size(std::size_t n) { return static_cast<std::int64_t>(n); }

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

struct Clear {
  float *u, *v;
  __device__ void operator()(std::int64_t, std::uint32_t i) const {
    v[i] = 0;
    if (u) u[i] = 0;
  }
};
struct Subtract {
  float *u, *v;
  const float* values;
  bool single;  // values is one, for all
  __device__ void operator()(std::int64_t j, std::uint32_t i) const {
    v[i] -= values[single ? 0 : j];
    if (u) u[i] = 0;
  }
};
struct Add {
  float* dense;
  const float* values;
  float factor;
  bool single;
  __device__ void operator()(std::int64_t j, std::uint32_t i) const { dense[i] += factor * values[single ? 0 : j]; }
};
struct Gather {
  float* to;
  const float* from;
  __device__ void operator()(std::int64_t j, std::uint32_t i) const { to[j] = from[i]; }
};
struct Put {
  float* to;
  const float* from;
  __device__ void operator()(std::int64_t j, std::uint32_t i) const { to[i] = from[j]; }
};
struct Values {
  const float* values;
  __device__ double operator()(std::int64_t i, bool) const { return static_cast<double>(values[i]); }
};

}  // namespace

void clear_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n) {
  each(indices, count, n, Clear{u, v});
}
void subtract_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n,
                 const float* values) {
  each(indices, count, n, Subtract{u, v, values, false});
}
void subtract_one_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n,
                     const float* value) {
  each(indices, count, n, Subtract{u, v, value, true});
}
void add_at(float* dense, const std::uint32_t* indices, std::size_t count, std::size_t n, float factor,
            const float* values, bool single) {
  each(indices, count, n, Add{dense, values, factor, single});
}
void gather_at(float* to, const float* from, const std::uint32_t* indices, std::size_t count, std::size_t n) {
  each(indices, count, n, Gather{to, from});
}
void put_at(float* to, const float* from, const std::uint32_t* indices, std::size_t count, std::size_t n) {
  each(indices, count, n, Put{to, from});
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

void mean_of(const float* values, std::size_t count, float* mean) {
  Temporary<double> sum(1);
  double* const there = sum.data();
  ordered_sums<1>(Values{values}, size(count), there);
  const auto of = static_cast<double>(count);
  map(1, [=] __device__(std::int64_t) { *mean = of > 0 ? static_cast<float>(*there / of) : 0.0f; });
}

void put_step_by(float* value, float* before, float* delta, std::size_t n) {
  map(size(n), [=] __device__(std::int64_t i) {
    const float now = value[i], then = before[i];
    delta[i] += now - then;
    value[i] = then;
    before[i] = now;
  });
}

}  // namespace laconic::compress::cuda
