#include <gtest/gtest.h>

#include "core/kernels/products.h"
#include "tests/convolution.h"
#include "tests/each_vector.h"
#include "tests/pairwise.h"
#include "tests/values_of.h"

namespace laconic::cpu {
namespace {

/// dx + dy w, or dy w alone.
std::vector<double> naive_sums(const std::vector<float>& dx, const std::vector<float>& dy, const std::vector<float>& w,
                               std::size_t in, std::size_t out, bool add) {
  std::vector<double> sums(dx.size());
  for (std::size_t i = 0; i < dx.size(); ++i) sums[i] = add ? double{dx[i]} : 0.0;
  for (std::size_t r = 0; r < dx.size() / in; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) sums[r * in + i] += double{dy[r * out + o]} * double{w[o * in + i]};
  return sums;
}

TEST(Linear, NoRowsAddNothingToTheWeightsGradient) {
  for (const bool add : {false, true}) {
    std::vector<float> dw(6, 7);
    linear_backward_weights(dw.data(), add, nullptr, nullptr, 0, 3, 2, 2);
    EXPECT_EQ(dw, std::vector<float>(6, add ? 7.0f : 0.0f));
  }
}

TEST(Linear, GradientOfDataIsTheNaiveSumForEverySize) {
  const std::size_t all_rows[] = {1, 7, 257}, ins[] = {500, 512, 1024}, outs[] = {1, 256, 300};
  for (const auto& row : combinations({3, 3, 3, 2})) {
    const std::size_t rows = all_rows[row[0]], in = ins[row[1]], out = outs[row[2]];
    const bool add = row[3] == 1;
    SCOPED_TRACE(testing::Message() << rows << " rows, " << in << " to " << out << (add ? ", added" : ""));
    const std::vector<float> before = values_of(1, rows * in), dy = values_of(2, rows * out),
                             w = values_of(3, out * in);
    const std::vector<double> exact = naive_sums(before, dy, w, in, out, add);
    const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const auto gradient = [&](int threads) {
      std::vector<float> dx = before;
      set_kernel_threads(threads);
      linear_backward_data(dx.data(), add, dy.data(), w.data(), size(rows), size(in), size(out));
      set_kernel_threads(1);
      return dx;
    };
    with_each_vector([&] {
      EXPECT_LT(largest_error(gradient(1), exact), 1e-5);
      EXPECT_LT(largest_error(gradient(2), exact), 1e-5);
    });
  }
}

}  // namespace
}  // namespace laconic::cpu
