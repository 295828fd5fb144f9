#include "core/base/random.h"
#include "core/cuda/columns.cuh"
#include "core/kernels/elementwise.h"
// Below the others, since its kernels are made of each().
#include "core/kernels/elementwise.cuh"

namespace laconic::cuda {
namespace {

constexpr std::int64_t kChunk = 16384;  // a block's share of a sum
constexpr int kParts = 64;              // arrays that one launch sums up

struct Parts {
  const float* data[kParts];
  std::int64_t size[kParts];
  unsigned first_chunk[kParts];
  int count = 0;
};

struct Itself {
  __device__ double operator()(float x) const { return x; }
};
struct Square {
  __device__ double operator()(float x) const { return static_cast<double>(x) * x; }
};

/// partial[chunk] = sum of f(x) over a chunk of one of the arrays.
template <class F>
__global__ void __launch_bounds__(kBlock) chunk_sums_kernel(double* partial, Parts parts, F f) {
  int part = 0;
  while (part + 1 < parts.count && parts.first_chunk[part + 1] <= blockIdx.x) ++part;
  const std::int64_t begin = (blockIdx.x - parts.first_chunk[part]) * kChunk, left = parts.size[part] - begin;
  const float* x = parts.data[part] + begin;
  const int n = static_cast<int>(left < kChunk ? left : kChunk);
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  double sum = 0;
  const int whole = aligned ? n / 4 : 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < whole; i += kBlock) {
    const Pack<float, 4> p = load_pack<4>(x + 4 * i);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += f(p.v[k]);
  }
#pragma unroll 4
  for (int i = 4 * whole + threadIdx.x; i < n; i += kBlock) sum += f(x[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// One block.
__global__ void __launch_bounds__(1024)
    total_kernel(double* total, float* y, double a, const double* partial, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x > 0) return;
  if (total) *total = sum;
  if (y) *y = static_cast<float>(a * sum);
}

template <class F>
void sum_all(double* total, float* y, double a, std::span<const Slice<const float>> arrays, F f) {
  std::size_t chunks = 0;
  for (const auto& x : arrays) chunks += (x.size() + kChunk - 1) / kChunk;
  const Temporary<double> partial(std::max<std::size_t>(1, chunks));
  Parts parts;
  unsigned some = 0;
  double* to = partial.data();
  const auto run = [&] {
    launch(chunk_sums_kernel<F>, some, kBlock, to, parts, f);
    to += some;
    parts.count = 0;
    some = 0;
  };
  for (const auto& x : arrays) {
    if (x.empty()) continue;
    parts.data[parts.count] = x.data();
    parts.size[parts.count] = static_cast<std::int64_t>(x.size());
    parts.first_chunk[parts.count++] = some;
    some += static_cast<unsigned>((x.size() + kChunk - 1) / kChunk);
    if (parts.count == kParts) run();
  }
  run();
  add_up(total, y, a, partial.data(), static_cast<std::int64_t>(chunks));
}

template <class F>
double host_sum(std::span<const Slice<const float>> arrays, F f) {
  const Temporary<double> total(1);
  sum_all(total.data(), nullptr, 0, arrays, f);
  return host_value(total.data());
}

/// Sums of the columns themselves.
template <class Real>
struct Columns {
  static constexpr bool kStores = false;
  static constexpr int kSums = 1, kWide = kPerMove<Real>;
  const Real* x;
  template <int kWide>
  struct At {
    const Real* x;
    __device__ void operator()(std::int64_t i, float (&sums)[1][kWide]) const {
      const Pack<float, kWide> p = load_pack<kWide>(x + i);
#pragma unroll
      for (int k = 0; k < kWide; ++k) sums[0][k] += p.v[k];
    }
  };
  template <int kWide>
  __device__ At<kWide> at(std::int64_t) const {
    return {x};
  }
};

}  // namespace

void add(float* y, const BFloat16* x, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float xi) { yi += xi; }, y, x);
}
void add(float* y, const BFloat16* a, const BFloat16* b, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float ai, float bi) { yi = ai + bi; }, out(y), a, b);
}

void add_up(double* total, float* y, double a, const double* values, std::int64_t n) {
  const auto threads = static_cast<int>(std::min<std::int64_t>(1024, (n + kWarp - 1) / kWarp * kWarp));
  launch(total_kernel, 1, std::max(threads, kWarp), total, y, a, values, n);
}

void sum(float* y, float a, const float* x, std::int64_t n) {
  const Slice<const float> all(x, static_cast<std::size_t>(n));
  sum_all(nullptr, y, a, {&all, 1}, Itself{});
}
void sum_of_squares(float* y, float a, const float* x, std::int64_t n) {
  const Slice<const float> all(x, static_cast<std::size_t>(n));
  sum_all(nullptr, y, a, {&all, 1}, Square{});
}
double sum(const float* x, std::int64_t n) {
  const Slice<const float> all(x, static_cast<std::size_t>(n));
  return host_sum({&all, 1}, Itself{});
}
double sum_of_squares(const float* x, std::int64_t n) {
  const Slice<const float> all(x, static_cast<std::size_t>(n));
  return host_sum({&all, 1}, Square{});
}
double sum_of_squares(std::span<const Slice<const float>> x) { return host_sum(x, Square{}); }

bool all_finite(const float* x, std::int64_t n) {
  const Temporary<std::int32_t> found(1);
  std::int32_t* flag = found.data();
  map(1, [=] __device__(std::int64_t) { *flag = 0; });
  each(
      n,
      [=] __device__(float xi) {
        if ((__float_as_uint(xi) & 0x7F800000u) == 0x7F800000u) atomicOr(flag, 1);
      },
      x);
  return host_value(flag) == 0;
}

template <class Real>
void sum_rows(float* b, const Real* x, std::int64_t rows, std::int64_t columns, bool add) {
  sum_columns(
      rows, columns, aligned_for<kPerMove<Real>>(x), Columns<Real>{x},
      [=] __device__(std::int64_t j, const double* total) { b[j] = (add ? b[j] : 0.0f) + static_cast<float>(*total); });
}

void cast(BFloat16* y, const float* x, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float xi) { yi = xi; }, out(y), x);
}
void cast(float* y, const BFloat16* x, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float xi) { yi = xi; }, out(y), x);
}
void cast(float* y, const std::uint8_t* x, std::int64_t n) {
  map(n, [=] __device__(std::int64_t i) { y[i] = x[i]; });
}

#define LACONIC_INSTANTIATE_FUNCTION(name, ...)                   \
  template void name##_forward(Real*, const Real*, std::int64_t); \
  template void name##_backward(Real*, const Real*, const Real*, std::int64_t);
#define LACONIC_INSTANTIATE_FUNCTION_OF_CONSTANT(name, ...)              \
  template void name##_forward(Real*, const Real*, float, std::int64_t); \
  template void name##_backward(Real*, const Real*, const Real*, float, std::int64_t);
#define LACONIC_INSTANTIATE_FUNCTION_OF_TWO(name, result) \
  template void name(Real*, const Real*, const Real*, const StridedWalk&);
#define LACONIC_INSTANTIATE                                                      \
  template void add(Real*, const Real*, std::int64_t);                           \
  template void add(Real*, const Real*, const Real*, std::int64_t);              \
  template void sum_rows(float*, const Real*, std::int64_t, std::int64_t, bool); \
  LACONIC_FUNCTIONS(LACONIC_INSTANTIATE_FUNCTION)                                \
  LACONIC_FUNCTIONS_OF_CONSTANT(LACONIC_INSTANTIATE_FUNCTION_OF_CONSTANT)        \
  LACONIC_FUNCTIONS_OF_TWO(LACONIC_INSTANTIATE_FUNCTION_OF_TWO)
#define Real float
LACONIC_INSTANTIATE
#undef Real
#define Real BFloat16
LACONIC_INSTANTIATE
#undef Real
#undef LACONIC_INSTANTIATE

void dropout_forward(float* y, std::uint8_t* keep, const float* x, float scale, const DropoutPlaces& places,
                     std::int64_t rows, std::int64_t per_row, const DropoutMask& given) {
  const std::int64_t blocks = (per_row + 63) / 64 * 16;
  const DropoutPlaces at = places;
  const DropoutMask mask = given;
  const Divisor by_blocks(blocks), by_inner(places.inner);
  map(rows * blocks, [=] __device__(std::int64_t i) {
    const auto [n, block] = by_blocks(i);
    const auto words = philox(
        {static_cast<std::uint32_t>(block), mask.first_row + static_cast<std::uint32_t>(n), mask.step, mask.layer},
        mask.key);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const std::int64_t e = block / 16 * 64 + word * 16 + block % 16;
      if (e >= per_row) break;
      const auto [outer, inner] = by_inner(e);
      const std::int64_t place = n * at.sample + outer * at.outer_step + inner * at.inner_step;
      const bool kept = words[static_cast<std::size_t>(word)] >= mask.threshold;
      keep[place] = kept;
      y[place] = kept ? scale * x[place] : 0.0f;
    }
  });
}

}  // namespace laconic::cuda
