#include "compress/low_rank.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compress/ordered_sum.h"
#include "core/autograd.h"
#include "core/base/random.h"
#include "core/host_copy.h"
#include "core/ops/linear.h"
#include "core/ops/reshape.h"
#include "core/raw.h"

namespace laconic::compress {
namespace {

double dot(const float* a, const float* b, std::int64_t n) {
  return ordered_sums<1>(static_cast<std::size_t>(n), [=](std::size_t i, std::size_t lane, auto& sums) {
    sums[0][lane] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  })[0];
}

/// FNV-1a.
std::uint32_t hash_of(const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

/// Rows of zeros become normal numbers, then all are orthonormal again.
void replace_zeros(float* x, std::int64_t rows, std::int64_t n, Random random) {
  bool some = false;
  for (float* row = x; row < x + rows * n; row += n) {
    if (std::any_of(row, row + n, [](float v) { return v != 0; })) continue;
    std::generate(row, row + n, [&] { return random.normal(); });
    some = true;
  }
  if (some) orthonormalise(x, rows, n);
}

}  // namespace

void orthonormalise(float* x, std::int64_t rows, std::int64_t n) {
  constexpr double kRounding = 1e-6;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const row = x + i * n;
    const double before = std::sqrt(dot(row, row, n));
    for (int turn = 0; turn < 2; ++turn)
      for (std::int64_t j = 0; j < i; ++j) {
        const float* const other = x + j * n;
        const double share = dot(row, other, n);
        for (std::int64_t k = 0; k < n; ++k)
          row[k] = static_cast<float>(static_cast<double>(row[k]) - share * static_cast<double>(other[k]));
      }
    const double length = std::sqrt(dot(row, row, n));
    const double factor = length <= kRounding * before ? 0 : 1 / length;
    for (std::int64_t k = 0; k < n; ++k) row[k] = static_cast<float>(factor * static_cast<double>(row[k]));
  }
}

LowRank::LowRank(const Parameter& parameter, int rank, const Tensor& errors, std::uint64_t seed)
    : parameter_(parameter),
      rank_(rank),
      seed_(seed),
      matrix_([&] {
        const auto [n, m] = matrix_size(parameter.info.shape);
        return errors.range(parameter.info.offset, parameter.info.elements).view({n, m});
      }()),
      q_(Tensor::zeros({rank, matrix_.dim(1)}, DType::f32, errors.device())) {
  change_on_host(q_, [&](float* q) {
    replace_zeros(q, rank_, q_.dim(1), Random(seed_, Purpose::low_rank, hash_of(parameter_.info.name)));
  });
}

void LowRank::gather(Rows rows) {
  if (complete()) gathered_ = 0;
  const auto [first, count] = parameter_.info.part(rows);
  raw::axpy(matrix_.range(first, count), 1.0f, parameter_.grad().range(first, count));
  gathered_ += count;
}

void LowRank::project(std::int64_t step) {
  change_on_host(q_, [&](float* q) {
    orthonormalise(q, rank_, q_.dim(1));
    replace_zeros(q, rank_, q_.dim(1),
                  Random(seed_, Purpose::low_rank, hash_of(parameter_.info.name), static_cast<std::uint64_t>(step)));
  });
  const NoGrad no_grad;
  // A view of its own: what a product keeps beside its weights would be of another step's M.
  p_ = linear(q_, matrix_.view(matrix_.shape()), {});
}

void LowRank::fit() {
  change_on_host(p_, [&](float* p) { orthonormalise(p, rank_, p_.dim(1)); });
  const NoGrad no_grad;
  q_ = matmul(p_, matrix_);
}

void LowRank::approximate(float share) {
  const NoGrad no_grad;
  const Tensor all = matmul(transpose(p_, 0, 1), q_);
  raw::axpy(matrix_, -share, all);
  parameter_.grad().range(0, all.elements()).copy_from(all.view({all.elements()}));
}

void LowRank::load(const StateDict& state) { state.copy_to(q_, "q", "Q of " + parameter_.info.name); }

}  // namespace laconic::compress
