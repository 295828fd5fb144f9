// Selection on a device against that on the CPU.
#include <gtest/gtest.h>

#include "compress/select/selector.h"
#include "core/raw.h"
#include "tests/selection_cases.h"
#include "tests/test_devices.h"

namespace laconic::compress {
namespace {

using namespace selection_cases;
using SelectorOnCuda = CudaTest;

void expect_same(const Selection& cuda, const Selection& cpu) {
  ASSERT_EQ(host_values(cuda.all_indices()), cpu.indices);
  ASSERT_EQ(host_values(cuda.all_values()), cpu.values);
  EXPECT_EQ(cuda.threshold, cpu.threshold);
}

TEST_F(SelectorOnCuda, ChoosesWhatTheCpuChooses) {
  std::size_t turn = 0;  // all signs in turns: each of everything takes long where the device is emulated
  for (const std::size_t n : {1, 100, 4097})
    for (const auto& [name, x] : hostile(n)) {
      const Placed<float> there(x, kCuda, n % 2);
      for (const std::size_t k : counts_for(n))
        for (const std::string method : {"exact", "search", "fixed"}) {
          const Sign sign = kSigns[turn++ / 3 % 3];
          if (method == "fixed" && k > 1) continue;
          SCOPED_TRACE(testing::Message()
                       << method << ": " << k << " of " << n << " " << name << ", sign " << static_cast<int>(sign));
          const SelectorOptions options{.threshold = 0.3f};
          const Selection expected = make_selector(method, options)->select({.values = slice(x), .k = k, .sign = sign});
          const Selection s = make_selector(method, options)->select({.values = there, .k = k, .sign = sign});
          ASSERT_NO_FATAL_FAILURE(expect_same(s, expected));
        }
    }
}

TEST_F(SelectorOnCuda, ChoosesAlikeByEveryMethodAndInEveryTurn) {
  const std::size_t n = 30'011;
  const Values x = hostile(n)["clustered"], latest = hostile(n)["normal"];
  const Placed<float> there(x, kCuda, 1), latest_there(latest, kCuda);
  for (const SelectorKind& kind : selectors())
    for (const std::size_t k : {30, 6000}) {
      const auto cpu = kind.make({.threshold = 20}), cuda = kind.make({.threshold = 20});
      for (std::uint64_t turn = 0; turn < 3; ++turn) {
        SCOPED_TRACE(testing::Message() << kind.name << " " << k << ", turn " << turn);
        SelectionInput input{.values = slice(x), .k = k};
        input.latest = slice(latest), input.key.step = turn;
        const Selection expected = cpu->select(input);
        input.values = there, input.latest = latest_there;
        ASSERT_NO_FATAL_FAILURE(expect_same(cuda->select(input), expected));
      }
    }
}

// A communication thread that copies between GPUs goes on with a choice of its own afterwards.
TEST_F(SelectorOnCuda, ChoosesAlikeWhileItsThreadAsksAnotherDevice) {
  if (cuda_devices() < 2) GTEST_SKIP() << "fewer than two CUDA devices can be used here";
  const std::size_t n = 5003;
  const Values x = hostile(n)["normal"], latest = hostile(n)["clustered"];
  const Placed<float> there(x, kCuda), latest_there(latest, kCuda);
  const Tensor other = Tensor::zeros({1}, DType::f32, {Device::Kind::cuda, 1});
  for (const SelectorKind& kind : selectors()) {
    SCOPED_TRACE(kind.name);
    const auto cpu = kind.make({.threshold = 1}), cuda = kind.make({.threshold = 1});
    Selection chosen;  // from the second turn on in memory that is there, so that nothing else selects a device
    for (std::uint64_t turn = 0; turn < 2; ++turn) {
      SelectionInput input{.values = slice(x), .k = 50};
      input.latest = slice(latest), input.key.step = turn;
      const Selection expected = cpu->select(input);
      input.values = there, input.latest = latest_there;
      Steps steps = cuda->select_in_steps(input, chosen);
      while (steps.go_on()) {
        synchronize(kCuda);
        raw::fill(other, 1.0f);
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(chosen, expected));
    }
  }
}

// So many (over 4,194,304) that the device scans its counts in two rounds.
TEST_F(SelectorOnCuda, ChoosesWhatTheCpuChoosesOfMillions) {
  const std::size_t n = 4'300'007;
  const Values x = generated(n, 9, [](Random& random, std::size_t) { return std::floor(random.uniform() * 1000); });
  const Placed<float> there(x, kCuda);
  // All but the last of those that tie: where they end is told by counts of the second round.
  const auto k = static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [](float v) { return v >= 998; })) - 10;
  for (const char* method : {"exact", "radix"}) {
    SCOPED_TRACE(method);
    const SelectionInput input{.values = slice(x), .k = k};
    SelectionInput input_there = input;
    input_there.values = there;
    const Selection expected = make_selector(method)->select(input);
    EXPECT_GT(expected.indices.back(), 4'200'000u);
    ASSERT_NO_FATAL_FAILURE(expect_same(make_selector(method)->select(input_there), expected));
  }
}

TEST_F(SelectorOnCuda, StepAfterStepGoesByWhatTheResidualPassMet) {
  const std::size_t n = 40'003;
  for (const std::size_t k : {40, 4'000})
    for (const Sign sign : {Sign::any, Sign::negative})
      for (const char* method : {"exact", "search", "sampled"}) {
        const auto on_cpu = make_selector(method), on_cuda = make_selector(method);
        Selector &cpu = *on_cpu, &cuda = *on_cuda;
        int without_a_pass = 0, step = 0;
        simulate(cpu, n, k, sign, 8, [&](const Values& x, const ResidualStats& stats, Candidates& candidates) {
          SCOPED_TRACE(testing::Message() << method << " " << k << ", step " << step++);
          // V as it is, in two parts that come in another order.
          const Placed<float> values(x, kCuda);
          const Placed<float> zeros(Values(n, 0.0f), kCuda);
          Candidates there;
          cuda.prepare(there, k, sign);
          StatsSum sums;
          for (const std::size_t first : {std::size_t{30'000}, std::size_t{0}}) {
            const std::size_t count = std::min<std::size_t>(30'000, n - first);
            accumulate_residual({zeros.slice().sub(first, count),
                                 {},
                                 {},
                                 values.slice().sub(first, count),
                                 static_cast<std::uint32_t>(first)},
                                {}, 1.0f, &there, sums);
          }
          Selection expected =
              cpu.select({.values = slice(x), .k = k, .sign = sign, .stats = &stats, .candidates = &candidates});
          Selection s = cuda.select({.values = values, .k = k, .sign = sign, .sums = &sums, .candidates = &there});
          EXPECT_EQ(host_values(s.all_indices()), expected.indices);
          EXPECT_EQ(s.threshold, expected.threshold);
          without_a_pass += s.passes == 0;
          return expected;
        });
        EXPECT_GE(without_a_pass, 4) << method << " " << k;
      }
}

TEST_F(SelectorOnCuda, RefusesNaNWhereverItStands) {
  for (const SelectorKind& kind : selectors())
    for (const std::size_t n : {1, 5000})
      for (const std::size_t at : {std::size_t{0}, n - 1}) {
        Values x = hostile(n)["normal"];
        x[at] = at == 0 ? kNaN : -kNaN;
        const Placed<float> there(x, kCuda);
        SelectionInput input{.values = there, .k = 1};
        input.latest = there;
        EXPECT_THROW(kind.make()->select(input), DataError) << kind.name << " " << at;
      }
}

}  // namespace
}  // namespace laconic::compress
