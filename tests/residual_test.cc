#include "compress/select/residual.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/cpu/isa.h"
#include "compress/cuda/residual.h"
#include "core/memory.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/tensor.h"
#include "tests/test_devices.h"

namespace laconic::compress {
namespace {

std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<float> x(n);
  for (float& v : x) v = random.normal();
  return x;
}

struct Case {
  std::vector<float> gradient, weight, velocity, residual;
  explicit Case(std::size_t n)
      : gradient(noise(n, 1)), weight(noise(n, 2)), velocity(noise(n, 3)), residual(noise(n, 4)) {}
  ResidualPart part(std::size_t first, std::size_t count) {
    return {Slice<const float>(gradient.data() + first, count), Slice<const float>(weight.data() + first, count),
            Slice<float>(velocity.data() + first, count), Slice<float>(residual.data() + first, count),
            static_cast<std::uint32_t>(first)};
  }
  ResidualPart whole() { return part(0, residual.size()); }
};

/// The formula, one element at a time.
void expect_accumulated(const Case& before, const Case& after, const MomentumRule& rule, float factor, bool momentum) {
  for (std::size_t i = 0; i < before.residual.size(); ++i) {
    const float g = factor * before.gradient[i] + rule.weight_decay * before.weight[i];
    const float u = momentum ? rule.momentum * before.velocity[i] + g : g;
    const float v = before.residual[i] + (momentum && rule.nesterov ? rule.momentum * u + g : u);
    ASSERT_NEAR(after.residual[i], v, 1e-5 * (1 + std::abs(v))) << i;
    if (momentum) {
      ASSERT_NEAR(after.velocity[i], u, 1e-5 * (1 + std::abs(u))) << i;
    }
  }
}

struct ExpectedPass {
  double positive = 0, negative = 0;
  float max_positive = 0, max_negative = 0;
  explicit ExpectedPass(const std::vector<float>& x) {
    for (float v : x) {
      (v > 0 ? positive : negative) += std::abs(v);
      if (v > 0) max_positive = std::max(max_positive, v);
      if (v < 0) max_negative = std::max(max_negative, -v);
    }
  }
};

void expect_stats(const ResidualStats& s, const std::vector<float>& x) {
  const ExpectedPass e(x);
  EXPECT_EQ(s.elements, x.size());
  EXPECT_EQ(s.max_positive, e.max_positive);
  EXPECT_EQ(s.max_negative, e.max_negative);
  EXPECT_NEAR(s.sum_positive, e.positive, 1e-5 * e.positive);
  EXPECT_NEAR(s.sum_negative, e.negative, 1e-5 * e.negative);
  EXPECT_FALSE(s.nan);
  EXPECT_EQ(s.max(Sign::any), std::max(e.max_positive, e.max_negative));
  const double n = std::max(1.0, static_cast<double>(x.size()));
  EXPECT_NEAR(s.mean(Sign::any), (e.positive + e.negative) / n, 1e-5 * s.mean(Sign::any));
}

const std::size_t kSizes[] = {0, 1, 15, 16, 17, 127, 128, 1000, 65535, 65536, 65537, 200'003};

TEST(AccumulateResidual, IsTheFormulaForEveryRuleAndLength) {
  for (const std::size_t n : kSizes)
    for (const bool nesterov : {false, true})
      for (const float decay : {0.0f, 0.01f})
        for (const bool momentum : {false, true}) {
          const Case before(n);
          Case after = before;
          const MomentumRule rule{momentum ? 0.9f : 0.0f, decay, nesterov && momentum};
          ResidualPart part = after.whole();
          if (!momentum) part.velocity = {};
          if (decay == 0) part.weight = {};
          const ResidualStats stats = accumulate_residual(part, rule, 0.5f);
          expect_accumulated(before, after, rule, 0.5f, momentum);
          if (!momentum) {
            EXPECT_EQ(after.velocity, before.velocity);
          }
          expect_stats(stats, after.residual);
        }
}

TEST(AccumulateResidual, InPartsAndInAnyOrderLeavesTheSameBits) {
  const std::size_t n = 200'003;
  Case whole(n), parts(n);
  const MomentumRule rule{0.9f, 1e-4f, true};
  const ResidualStats all = accumulate_residual(whole.whole(), rule);
  ResidualStats sum;
  Candidates candidates;
  candidates.begin(2.5f, Sign::any, n);
  for (const std::size_t first : {150'000, 0, 100'000, 50'000})
    sum += accumulate_residual(parts.part(first, first == 150'000 ? n - first : 50'000), rule, 1.0f, &candidates);
  EXPECT_EQ(whole.residual, parts.residual);
  EXPECT_EQ(whole.velocity, parts.velocity);
  EXPECT_EQ(sum.elements, all.elements);
  EXPECT_EQ(sum.max_positive, all.max_positive);
  EXPECT_EQ(sum.max_negative, all.max_negative);
  EXPECT_NEAR(sum.sum_positive, all.sum_positive, 1e-6 * all.sum_positive);
  ASSERT_TRUE(candidates.complete());
  EXPECT_EQ(candidates.elements(), n);
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(whole.residual[i]) < 2.5f) continue;
    ASSERT_LT(at, candidates.indices().size());
    ASSERT_EQ(candidates.indices()[at], i);
    ASSERT_EQ(candidates.values()[at], whole.residual[i]);
    ++at;
  }
  EXPECT_EQ(candidates.indices().size(), at);
  EXPECT_GT(at, 100u);
}

TEST(AccumulateResidual, GivesTheSameBitsOnOneThreadAndOnThree) {
  const std::size_t n = 700'001;
  Case one(n), three(n);
  const MomentumRule rule{0.9f, 1e-4f, false};
  Candidates of_one, of_three;
  of_one.begin(3, Sign::negative, n), of_three.begin(3, Sign::negative, n);
  const ResidualStats a = accumulate_residual(one.whole(), rule, 1.0f, &of_one);
  set_kernel_threads(3);
  const ResidualStats b = accumulate_residual(three.whole(), rule, 1.0f, &of_three);
  set_kernel_threads(1);
  EXPECT_EQ(one.residual, three.residual);
  EXPECT_EQ(one.velocity, three.velocity);
  EXPECT_EQ(a.sum_positive, b.sum_positive);
  EXPECT_EQ(a.sum_negative, b.sum_negative);
  ASSERT_EQ(of_one.count(), of_three.count());
  ASSERT_TRUE(of_one.complete() && of_three.complete());
  const auto i = of_one.indices(), j = of_three.indices();
  EXPECT_TRUE(std::equal(i.begin(), i.end(), j.begin(), j.end()));
  EXPECT_GT(i.size(), 100u);
}

TEST(AccumulateResidual, GivesTheSameBitsWithAndWithoutAvx512) {
  if (!cpu::use_avx512()) GTEST_SKIP() << "this processor has no AVX-512, so both ways are one";
  for (const std::size_t n : kSizes)
    for (const bool nesterov : {false, true})
      for (const bool decay : {false, true})
        for (const Sign sign : {Sign::any, Sign::positive, Sign::negative}) {
          Case wide(n), portable(n);
          const MomentumRule rule{0.9f, decay ? 0.01f : 0.0f, nesterov};
          Candidates of_wide, of_portable;
          of_wide.begin(2, sign, n), of_portable.begin(2, sign, n);
          const ResidualStats a = accumulate_residual(wide.whole(), rule, 0.3f, &of_wide);
          cpu::avx512_allowed = false;
          const ResidualStats b = accumulate_residual(portable.whole(), rule, 0.3f, &of_portable);
          cpu::avx512_allowed = true;
          ASSERT_EQ(wide.residual, portable.residual);
          ASSERT_EQ(wide.velocity, portable.velocity);
          EXPECT_EQ(a.sum_positive, b.sum_positive);
          EXPECT_EQ(a.sum_negative, b.sum_negative);
          EXPECT_EQ(a.max_positive, b.max_positive);
          EXPECT_EQ(a.max_negative, b.max_negative);
          const auto i = of_wide.indices(), j = of_portable.indices();
          EXPECT_TRUE(std::equal(i.begin(), i.end(), j.begin(), j.end()));
        }
}

TEST(AccumulateResidual, CountsCandidatesThatItHasNoRoomFor) {
  Case c(100'000);
  Candidates few, all;
  few.begin(1, Sign::positive, 100);
  all.begin(1, Sign::positive, c.residual.size());
  Case same = c;
  accumulate_residual(c.whole(), {0.9f, 0, false}, 1.0f, &few);
  accumulate_residual(same.whole(), {0.9f, 0, false}, 1.0f, &all);
  EXPECT_FALSE(few.complete());
  EXPECT_TRUE(all.complete());
  EXPECT_EQ(few.count(), all.count());
  EXPECT_LE(few.indices().size(), 100u);
  for (float v : all.values()) ASSERT_GE(v, 1.0f);
}

TEST(AccumulateResidual, KeepsNothingForInactiveCandidates) {
  Case c(1000);
  Candidates none;
  accumulate_residual(c.whole(), {0.9f, 0, false}, 1.0f, &none);
  EXPECT_EQ(none.indices().size(), 0u);
  EXPECT_FALSE(none.complete());
}

TEST(ResidualStats, SeesNaNWhereverItStands) {
  for (const std::size_t n : {1, 16, 130, 70'000})
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1})
      for (const float sign : {1.0f, -1.0f}) {
        std::vector<float> x = noise(n, 5);
        x[at] = std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
        EXPECT_TRUE(residual_stats(slice(std::as_const(x))).nan) << n << " " << at;
      }
}

TEST(ResidualStats, AreNotConfusedByInfinitiesOrHugeValues) {
  std::vector<float> x(100'000, -std::numeric_limits<float>::max());
  ResidualStats s = residual_stats(slice(std::as_const(x)));
  EXPECT_FALSE(s.nan);
  EXPECT_NEAR(s.mean(Sign::any), std::numeric_limits<float>::max(), 1e-6 * std::numeric_limits<float>::max());
  EXPECT_EQ(s.max_negative, std::numeric_limits<float>::max());
  EXPECT_EQ(s.max_positive, 0);
  x[7] = std::numeric_limits<float>::infinity();
  s = residual_stats(slice(std::as_const(x)));
  EXPECT_FALSE(s.nan);
  EXPECT_EQ(s.max_positive, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isinf(s.sum_positive));
  EXPECT_TRUE(std::isfinite(s.sum_negative));
}

TEST(ClearSent, ClearsResidualAndIfAskedMomentum) {
  for (const bool mask : {false, true}) {
    const Case before(5000);
    Case after = before;
    const std::vector<std::uint32_t> indices{0, 1, 77, 1234, 4999};
    clear_sent(slice(after.velocity), slice(after.residual), slice(indices), mask);
    for (std::size_t i = 0; i < before.residual.size(); ++i) {
      const bool sent = std::binary_search(indices.begin(), indices.end(), static_cast<std::uint32_t>(i));
      EXPECT_EQ(after.residual[i], sent ? 0 : before.residual[i]);
      EXPECT_EQ(after.velocity[i], sent && mask ? 0 : before.velocity[i]);
    }
  }
}

TEST(SubtractSent, KeepsWhatTheSentValueLeftOut) {
  const Case before(300);
  const std::vector<std::uint32_t> indices{0, 5, 299};
  const std::vector<float> values{1, 2, 3}, half{0.5f};
  Case one = before, each = before;
  subtract_sent(slice(one.velocity), slice(one.residual), slice(indices), slice(half), true);
  subtract_sent({}, slice(each.residual), slice(indices), slice(values), true);
  for (std::size_t j = 0; j < indices.size(); ++j) {
    EXPECT_EQ(one.residual[indices[j]], before.residual[indices[j]] - 0.5f);
    EXPECT_EQ(one.velocity[indices[j]], 0);
    EXPECT_EQ(each.residual[indices[j]], before.residual[indices[j]] - values[j]);
  }
  EXPECT_EQ(one.residual[1], before.residual[1]);
  EXPECT_EQ(each.velocity, before.velocity);
}

TEST(Residual, RefusesWhatDoesNotFit) {
  Case c(100);
  ResidualPart part = c.whole();
  part.gradient = part.gradient.first(99);
  EXPECT_THROW(accumulate_residual(part, {0.9f, 0, false}), ShapeError);
  part = c.whole();
  part.velocity = {};
  EXPECT_THROW(accumulate_residual(part, {0.9f, 0, false}), ShapeError);
  part = c.whole();
  part.weight = {};
  EXPECT_THROW(accumulate_residual(part, {0.9f, 0.1f, false}), ShapeError);
  const std::vector<std::uint32_t> outside{3, 100};
  const std::vector<float> two{1, 2}, three{1, 2, 3};
  EXPECT_THROW(clear_sent(slice(c.velocity), slice(c.residual), slice(outside), true), ShapeError);
  EXPECT_THROW(subtract_sent(slice(c.velocity), slice(c.residual), slice(outside), slice(two).first(1), true),
               ShapeError);
  EXPECT_THROW(subtract_sent(slice(c.velocity), slice(c.residual), slice(outside), slice(two), true), ShapeError);
  const std::vector<std::uint32_t> inside{3, 99};
  EXPECT_THROW(subtract_sent(slice(c.velocity), slice(c.residual), slice(inside), slice(three), true), ShapeError);
}

TEST(Residual, RunsWhereTheMemoryLies) {
  const std::int64_t n = 1000;
  const Tensor g = Tensor::full({n}, 1, kTrap), u = Tensor::zeros({n}, DType::f32, kTrap),
               v = Tensor::zeros({n}, DType::f32, kTrap);
  accumulate_residual({g.slice(), {}, u.slice(), v.slice(), 0}, {0.5f, 0, false});
  const std::vector<std::uint32_t> indices{3};
  clear_sent(u.slice(), v.slice(), slice(indices), true);
  const auto values = v.to_vector();
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(values[3], 0);
}

using ResidualOnCuda = CudaTest;

#ifdef LACONIC_CUDA
/// The device keeps what each tile has, up to kSlots of them, and the count of all; the host all, one behind the other.
void expect_same_candidates(Candidates& cuda, Candidates& cpu) {
  ASSERT_TRUE(cpu.complete());
  const std::vector<std::uint32_t> indices = host_values(cpu.indices());
  const std::vector<float> values = host_values(cpu.values());
  const auto read = []<class T>(const Bytes& bytes, T) {
    return host_values(Slice<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T), kCuda));
  };
  const Candidates::Tiles& t = cuda.tiles();
  const auto counts = read(t.counts, 0u);
  const auto slots = read(t.slots, cuda::Slot{});
  ASSERT_EQ(counts.size(), t.tiles);
  std::size_t at = 0;
  for (std::size_t tile = 0; tile < t.tiles; ++tile)
    for (std::uint32_t i = 0; i < counts[tile]; ++i, ++at) {
      ASSERT_LT(at, indices.size());
      ASSERT_EQ(indices[at] / cuda::kTile, tile);
      if (i >= cuda::kSlots) continue;
      const cuda::Slot& slot = slots[tile * cuda::kSlots + i];
      ASSERT_EQ(slot.index, indices[at]);
      ASSERT_EQ(slot.value, values[at]);
    }
  EXPECT_EQ(at, indices.size());
}
#endif

TEST_F(ResidualOnCuda, GivesTheBitsOfTheCpuAndItsCandidates) {
  for (const std::size_t n : {1, 15, 33, 4095, 4096, 4097, 70'001})
    for (const int kind : {0, 1, 2, 3, 4, 5})
      for (const std::size_t shift : {0, 1}) {
        if (n > 5000 && shift == 1 && kind > 0) continue;
        SCOPED_TRACE(testing::Message() << n << ", kind " << kind << ", shift " << shift);
        const bool momentum = kind >= 2, decays = kind % 2 == 1, nesterov = kind >= 4;
        const Sign sign = static_cast<Sign>(kind % 3);
        Case c(n);
        for (std::size_t i = 100; i < std::min<std::size_t>(n, 400); ++i) c.residual[i] = 5;  // more than a tile keeps
        const Placed<float> g(c.gradient, kCuda, shift), w(c.weight, kCuda, shift), u(c.velocity, kCuda, shift),
            v(c.residual, kCuda, shift);
        const MomentumRule rule{momentum ? 0.9f : 0.0f, decays ? 0.01f : 0.0f, nesterov};
        Candidates on_cpu, on_cuda;
        on_cpu.begin(2, sign, n), on_cuda.begin(2, sign, n);
        ResidualPart part = c.whole(), there{g, w, u, v, 0};
        if (!momentum) part.velocity = there.velocity = {};
        const ResidualStats a = accumulate_residual(part, rule, 0.3f, &on_cpu);
        const ResidualStats b = accumulate_residual(there, rule, 0.3f, &on_cuda);
        EXPECT_EQ(host_values(v.slice()), c.residual);
        EXPECT_EQ(host_values(u.slice()), c.velocity);
        EXPECT_EQ(a.elements, b.elements);
        EXPECT_EQ(a.sum_positive, b.sum_positive);
        EXPECT_EQ(a.sum_negative, b.sum_negative);
        EXPECT_EQ(a.max_positive, b.max_positive);
        EXPECT_EQ(a.max_negative, b.max_negative);
        EXPECT_EQ(a.nan, b.nan);
        EXPECT_EQ(on_cuda.elements(), n);
#ifdef LACONIC_CUDA
        ASSERT_NO_FATAL_FAILURE(expect_same_candidates(on_cuda, on_cpu));
#endif
      }
}

TEST_F(ResidualOnCuda, SumsOverPartsAreTheCpus) {
  const std::size_t n = 150'001;
  Case c(n);
  const Placed<float> g(c.gradient, kCuda), v(c.residual, kCuda);
  StatsSum cpu, cuda;
  for (int round = 0; round < 2; ++round) {
    cpu.clear(), cuda.clear();
    for (const std::size_t first : {std::size_t{100'000}, std::size_t{0}}) {
      const std::size_t count = std::min<std::size_t>(100'000, n - first);
      ResidualPart part = c.part(first, count);
      part.velocity = {};
      accumulate_residual(part, {}, 1.0f, nullptr, cpu);
      accumulate_residual({g.slice().sub(first, count), {}, {}, v.slice().sub(first, count), 0}, {}, 1.0f, nullptr,
                          cuda);
    }
    EXPECT_EQ(cuda.get().elements, n);
    EXPECT_EQ(cuda.get().sum_positive, cpu.get().sum_positive);
    EXPECT_EQ(cuda.get().sum_negative, cpu.get().sum_negative);
  }
}

TEST_F(ResidualOnCuda, StatsOfWhatIsNoNumberOrHugeAreTheCpus) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::max()}) {
    std::vector<float> x = noise(70'000, 5);
    std::fill(x.begin() + 66'000, x.begin() + 66'100, odd);
    const ResidualStats a = residual_stats(slice(std::as_const(x))),
                        b = residual_stats(Placed<float>(x, kCuda).slice());
    EXPECT_EQ(a.nan, b.nan);
    EXPECT_EQ(a.max_positive, b.max_positive);
    EXPECT_EQ(a.max_negative, b.max_negative);
    EXPECT_EQ(std::isnan(a.sum_positive), std::isnan(b.sum_positive));
    EXPECT_EQ(a.sum_negative, b.sum_negative);
  }
}

TEST_F(ResidualOnCuda, ClearsAndSubtractsWhatWasSent) {
  const Case before(5000);
  const std::vector<std::uint32_t> indices{0, 1, 77, 1234, 4999};
  const std::vector<float> values{1, 2, 3, 4, 5}, half{0.5f};
  for (const bool mask : {false, true})
    for (const bool host_indices : {false, true})
      for (const int kind : {0, 1, 2}) {
        Case cpu = before;
        const Placed<float> u(before.velocity, kCuda), v(before.residual, kCuda), sent(values, kCuda);
        const Placed<std::uint32_t> there(indices, kCuda);
        const Slice<const std::uint32_t> at = host_indices ? slice(indices) : Slice<const std::uint32_t>(there);
        if (kind == 0) clear_sent(slice(cpu.velocity), slice(cpu.residual), slice(indices), mask);
        if (kind == 0) clear_sent(u, v, at, mask);
        if (kind == 1) subtract_sent(slice(cpu.velocity), slice(cpu.residual), slice(indices), slice(half), mask);
        if (kind == 1) subtract_sent(u, v, at, slice(half), mask);
        if (kind == 2) subtract_sent(slice(cpu.velocity), slice(cpu.residual), slice(indices), slice(values), mask);
        if (kind == 2) subtract_sent(u, v, at, sent, mask);
        EXPECT_EQ(host_values(u.slice()), cpu.velocity);
        EXPECT_EQ(host_values(v.slice()), cpu.residual);
      }
  Case cpu = before;
  const Placed<float> all(before.residual, kCuda), mean(std::vector<float>(1), kCuda), w(before.residual, kCuda);
  float of_cpu = 0;
  mean_of(slice(std::as_const(before.residual)), {&of_cpu, 1});
  mean_of(all, mean);
  EXPECT_EQ(host_values(mean.slice())[0], of_cpu);
  subtract_sent({}, slice(cpu.residual), slice(indices), Slice<const float>(&of_cpu, 1), false);
  subtract_sent({}, w, Placed(indices, kCuda), mean, false);
  EXPECT_EQ(host_values(w.slice()), cpu.residual);
  const Placed<float> v(before.residual, kCuda);
  const Placed<std::uint32_t> outside(std::vector<std::uint32_t>{3, 5000}, kCuda);
  clear_sent({}, v, outside, false);
  EXPECT_THROW(synchronize(kCuda), DataError);
}

}  // namespace
}  // namespace laconic::compress
