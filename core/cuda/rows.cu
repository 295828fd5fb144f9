#include <cfloat>

#include "core/cuda/each.cuh"
#include "core/kernels/elementwise.h"
#include "core/kernels/rows.h"

namespace laconic::cuda {
namespace {

// A row belongs to a warp, or where it is long to a block of its own.
constexpr int kRowBlock = 512;
constexpr std::int64_t kLongRow = 1024;

template <int kThreads>
constexpr int kBlockFor = kThreads == kWarp ? kBlock : kThreads;

template <int kThreads>
__device__ std::int64_t my_row() {
  return static_cast<std::int64_t>(blockIdx.x) * (kBlockFor<kThreads> / kThreads) + threadIdx.x / kThreads;
}
template <int kThreads, class T, class Combine>
__device__ T row_reduce(T value, Combine combine) {
  if constexpr (kThreads == kWarp) return warp_reduce(value, combine);
  return block_reduce(value, combine);
}
/// Launches kernel32 or kernel512, whichever suits the rows.
template <class... Parameters, class... Arguments>
void launch_rows(void (*by_warp)(Parameters...), void (*by_block)(Parameters...), std::int64_t rows,
                 std::int64_t classes, Arguments... arguments) {
  if (classes <= kLongRow)
    launch(by_warp, static_cast<unsigned>((rows + kBlock / kWarp - 1) / (kBlock / kWarp)), kBlock, arguments...);
  else
    launch(by_block, static_cast<unsigned>(rows), kRowBlock, arguments...);
}

/// One pass over the row: each thread keeps the largest it has seen, and the sum of exponentials relative to that.
template <int kThreads>
__global__ void __launch_bounds__(kBlockFor<kThreads>)
    cross_entropy_kernel(double* loss, float* stats, const float* logits, const std::int64_t* labels, std::int64_t rows,
                         std::int64_t classes, float smoothing, Report* report) {
  const std::int64_t row = my_row<kThreads>();
  if (row >= rows) return;  // the whole warp, or block
  const float* x = logits + row * classes;
  constexpr int kAtOnce = 4;
  float largest = -FLT_MAX, sum = 0;
  double sum_of_logits = 0;
  for (std::int64_t k = threadIdx.x % kThreads; k < classes; k += kAtOnce * kThreads) {
    float v[kAtOnce], most = largest;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const bool inside = k + j * kThreads < classes;
      v[j] = inside ? x[k + j * kThreads] : -INFINITY;
      if (smoothing != 0 && inside) sum_of_logits += v[j];
      most = v[j] > most ? v[j] : most;
    }
    sum *= expf(largest - most);
    largest = most;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) sum += expf(v[j] - largest);
  }
  const float most = row_reduce<kThreads>(largest, Max{});
  const double total = row_reduce<kThreads>(static_cast<double>(sum * expf(largest - most)), Sum{});
  if (smoothing != 0) sum_of_logits = row_reduce<kThreads>(sum_of_logits, Sum{});
  if (threadIdx.x % kThreads != 0) return;
  const std::int64_t label = labels[row];
  const bool known = label >= 0 && label < classes;
  if (!known) tell(report, Finding::label, row, label, classes);
  const double log_sum = most + log(total);
  loss[row] = known ? (1.0 - smoothing) * (log_sum - x[label]) : static_cast<double>(NAN);
  if (smoothing != 0) loss[row] += smoothing * (log_sum - sum_of_logits / static_cast<double>(classes));
  if (stats) stats[2 * row] = most, stats[2 * row + 1] = static_cast<float>(1.0 / total);
}

/// Blocks: grid.x parts of a row, grid.y rows in turn.
__global__ void __launch_bounds__(kBlock)
    backward_kernel(float* dx, const float* x, const float* stats, const std::int64_t* labels, std::int64_t rows,
                    std::int64_t classes, float smoothing, const float* dy) {
  const float scale = *dy / static_cast<float>(rows), everywhere = scale * (smoothing / static_cast<float>(classes)),
              at_label = scale * (1.0f - smoothing);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<std::int64_t>(gridDim.y) * blockDim.y) {
    const float most = stats[2 * row], factor = scale * stats[2 * row + 1];
    const std::int64_t label = labels[row];
    const float* from = x + row * classes;
    float* to = dx + row * classes;
#pragma unroll 4
    for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < classes; k += stride)
      to[k] = factor * expf(from[k] - most) - everywhere - (k == label ? at_label : 0.0f);
  }
}

template <int kThreads>
__global__ void __launch_bounds__(kBlockFor<kThreads>)
    count_correct_kernel(unsigned long long* correct, const float* logits, const std::int64_t* labels,
                         std::int64_t rows, std::int64_t classes, int k, Report* report) {
  const std::int64_t row = my_row<kThreads>();
  if (row >= rows) return;
  const float* x = logits + row * classes;
  const std::int64_t label = labels[row];
  const bool known = label >= 0 && label < classes;
  const float mine = known ? x[label] : NAN;
  std::int64_t better = 0;
  for (std::int64_t c = threadIdx.x % kThreads; c < classes; c += kThreads)
    better += c != label && !(x[c] < mine) && !(x[c] == mine && c > label);
  better = row_reduce<kThreads>(better, Sum{});
  if (threadIdx.x % kThreads != 0) return;
  if (!known) tell(report, Finding::label, row, label, classes);
  if (mine == mine && better < k) atomicAdd(correct, 1ull);
}

void losses(double* loss, float* stats, const float* x, const std::int64_t* labels, std::int64_t rows,
            std::int64_t classes, float smoothing) {
  launch_rows(cross_entropy_kernel<kWarp>, cross_entropy_kernel<kRowBlock>, rows, classes, loss, stats, x, labels, rows,
              classes, smoothing, report());
}

/// A warp, or a block, for each row.
template <int kThreads>
__global__ void __launch_bounds__(kBlockFor<kThreads>)
    sum_rows_kernel(float* y, const float* x, std::int64_t rows, std::int64_t n, float scale) {
  const std::int64_t row = my_row<kThreads>();
  if (row >= rows) return;
  double sum = 0;
  for (std::int64_t k = threadIdx.x % kThreads; k < n; k += kThreads) sum += x[row * n + k];
  sum = row_reduce<kThreads>(sum, Sum{});
  if (threadIdx.x % kThreads == 0) y[row] = static_cast<float>(scale * sum);
}

template <int kThreads>
__global__ void __launch_bounds__(kBlockFor<kThreads>)
    softmax_kernel(float* y, const float* x, std::int64_t rows, std::int64_t classes, bool logarithm) {
  const std::int64_t row = my_row<kThreads>();
  if (row >= rows) return;
  const float* from = x + row * classes;
  float most = -INFINITY;
  double sum = 0;
  for (std::int64_t k = threadIdx.x % kThreads; k < classes; k += kThreads) most = from[k] > most ? from[k] : most;
  most = row_reduce<kThreads>(most, Max{});
  for (std::int64_t k = threadIdx.x % kThreads; k < classes; k += kThreads) sum += expf(from[k] - most);
  sum = row_reduce<kThreads>(sum, Sum{});
  const float factor = static_cast<float>(1 / sum), less = static_cast<float>(log(sum));
  for (std::int64_t k = threadIdx.x % kThreads; k < classes; k += kThreads)
    y[row * classes + k] = logarithm ? (from[k] - most) - less : factor * expf(from[k] - most);
}

template <int kThreads>
__global__ void __launch_bounds__(kBlockFor<kThreads>)
    softmax_backward_kernel(float* dx, const float* dy, const float* y, std::int64_t rows, std::int64_t classes,
                            bool logarithm) {
  const std::int64_t row = my_row<kThreads>(), at = row * classes;
  if (row >= rows) return;
  double sum = 0;
  for (std::int64_t k = threadIdx.x % kThreads; k < classes; k += kThreads)
    sum += logarithm ? dy[at + k] : static_cast<double>(dy[at + k]) * y[at + k];
  const auto all = static_cast<float>(row_reduce<kThreads>(sum, Sum{}));
  for (std::int64_t k = threadIdx.x % kThreads; k < classes; k += kThreads)
    dx[at + k] = logarithm ? dy[at + k] - expf(y[at + k]) * all : y[at + k] * (dy[at + k] - all);
}

}  // namespace

void sum_middle(float* y, const float* x, std::int64_t outer, std::int64_t n, std::int64_t inner, float scale) {
  if (outer == 1 && inner == 1) return sum(y, scale, x, n);
  if (inner == 1)
    return launch_rows(sum_rows_kernel<kWarp>, sum_rows_kernel<kRowBlock>, outer, n, y, x, outer, n, scale);
  map(outer * inner, [=] __device__(std::int64_t at) {
    const float* from = x + at / inner * n * inner + at % inner;
    double sum = 0;
    for (std::int64_t r = 0; r < n; ++r) sum += from[r * inner];
    y[at] = static_cast<float>(scale * sum);
  });
}

void extreme_middle(float* y, std::int64_t* index, const float* x, std::int64_t outer, std::int64_t n,
                    std::int64_t inner, bool largest) {
  map(outer * inner, [=] __device__(std::int64_t at) {
    const float* from = x + at / inner * n * inner + at % inner;
    float best = from[0];
    std::int64_t place = 0;
    for (std::int64_t r = 1; r < n && best == best; ++r) {
      const float v = from[r * inner];
      if (v != v || (largest ? v > best : v < best)) best = v, place = r;
    }
    y[at] = best, index[at] = place;
  });
}

void put_middle(float* dx, const float* dy, const std::int64_t* index, std::int64_t outer, std::int64_t n,
                std::int64_t inner) {
  map(outer * n * inner, [=] __device__(std::int64_t at) {
    const std::int64_t o = at / (n * inner), r = at / inner % n, i = at % inner;
    dx[at] = index[o * inner + i] == r ? dy[o * inner + i] : 0.0f;
  });
}

void softmax_rows(float* y, const float* x, std::int64_t rows, std::int64_t classes, bool logarithm) {
  launch_rows(softmax_kernel<kWarp>, softmax_kernel<kRowBlock>, rows, classes, y, x, rows, classes, logarithm);
}
void softmax_rows_backward(float* dx, const float* dy, const float* y, std::int64_t rows, std::int64_t classes,
                           bool logarithm) {
  launch_rows(softmax_backward_kernel<kWarp>, softmax_backward_kernel<kRowBlock>, rows, classes, dx, dy, y, rows,
              classes, logarithm);
}

void softmax_cross_entropy(float* loss, float* stats, const float* x, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t classes, float smoothing) {
  const Temporary<double> each(static_cast<std::size_t>(rows));
  losses(each.data(), stats, x, labels, rows, classes, smoothing);
  add_up(nullptr, loss, 1.0 / static_cast<double>(rows), each.data(), rows);
}

void softmax_cross_entropy_backward(float* dx, const float* x, const float* stats, const std::int64_t* labels,
                                    std::int64_t rows, std::int64_t classes, float smoothing, const float* dy) {
  unsigned across = kWarp;
  while (across < kBlock && across < classes) across *= 2;
  const unsigned down = kBlock / across;
  const auto parts = static_cast<unsigned>((classes + 16 * across - 1) / (16 * across));
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((rows + down - 1) / down, 65535));
  launch(backward_kernel, dim3(parts, blocks), dim3(across, down), dx, x, stats, labels, rows, classes, smoothing, dy);
}

double sum_of_cross_entropy(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  const Temporary<double> each(static_cast<std::size_t>(rows) + 1);
  losses(each.data() + 1, nullptr, x, labels, rows, classes, 0);
  add_up(each.data(), nullptr, 0, each.data() + 1, rows);
  return host_value(each.data());
}

std::int64_t count_correct(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes, int k) {
  const Temporary<unsigned long long> correct(1);
  unsigned long long* to = correct.data();
  map(1, [=] __device__(std::int64_t) { *to = 0; });
  launch_rows(count_correct_kernel<kWarp>, count_correct_kernel<kRowBlock>, rows, classes, to, x, labels, rows, classes,
              k, report());
  return static_cast<std::int64_t>(host_value(to));
}

/// One thread moves kWide elements.
template <int kWide>
static void embedding_rows(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t vocabulary,
             std::int64_t dim) {
  Report* told = report();
  const std::int64_t groups = dim / kWide;
  map(n * groups, [=] __device__(std::int64_t at) {
    const std::int64_t i = at / groups, row = index[i], column = at % groups * kWide;
    Pack<float, kWide> p{};
    if (row >= 0 && row < vocabulary)
      p = load_pack<kWide>(w + row * dim + column);
    else if (column == 0)
      tell(told, Finding::index, i, row, vocabulary);
    store_pack<kWide>(y + i * dim + column, p);
  });
}

/// One warp for each index and 32 kWide columns. The first of equal indices adds up what belongs to all of them, in
/// their order, so that no sum depends on which warp comes when.
template <int kWide>
static __global__ void __launch_bounds__(kBlock)
    embedding_backward_kernel(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                    std::int64_t rows, std::int64_t dim) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (i >= n) return;
  const std::int64_t mine = index[i];
  if (mine < first || mine >= first + rows) return;
  for (std::int64_t j = lane; j - lane < i; j += kWarp)
    if (__any_sync(kAllLanes, j < i && index[j] == mine)) return;  // an earlier one does it
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane) * kWide;
  const bool inside = column < dim;
  float* to = dw + (mine - first) * dim + column;
  Pack<float, kWide> sum{};
  if (inside) sum = load_pack<kWide>(to);
  for (std::int64_t j0 = i; j0 < n; j0 += kWarp) {
    unsigned equal = __ballot_sync(kAllLanes, j0 + lane < n && index[j0 + lane] == mine);
    while (equal != 0) {
      const int next = __ffs(static_cast<int>(equal)) - 1;
      equal &= equal - 1;
      if (!inside) continue;
      const Pack<float, kWide> d = load_pack<kWide>(dy + (j0 + next) * dim + column);
#pragma unroll
      for (int k = 0; k < kWide; ++k) sum.v[k] += d.v[k];
    }
  }
  if (inside) store_pack<kWide>(to, sum);
}

void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t vocabulary,
                       std::int64_t dim) {
  const bool wide = dim % 4 == 0 && aligned_for<4>(y, w);
  (wide ? embedding_rows<4> : embedding_rows<1>)(y, w, index, n, vocabulary, dim);
}

void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                        std::int64_t rows, std::int64_t dim) {
  const int wide = dim % 4 == 0 && aligned_for<4>(dw, dy) ? 4 : 1;
  const dim3 grid(static_cast<unsigned>((n + kBlock / kWarp - 1) / (kBlock / kWarp)),
                  static_cast<unsigned>((dim + kWarp * wide - 1) / (kWarp * wide)));
  launch(wide == 4 ? embedding_backward_kernel<4> : embedding_backward_kernel<1>, grid, kBlock, dw, dy, index, n, first,
         rows, dim);
}

}  // namespace laconic::cuda

#include "core/kernels/cells.cuh"  // made of each_cell()
