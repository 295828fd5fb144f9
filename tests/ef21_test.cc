// EF21 with momentum against its algorithm, bit by bit, and what it promises: the same bits, the mean of all estimates,
// bytes, and no damage.
#include <cmath>
#include <numeric>

#include "core/base/parallel.h"
#include "core/base/random.h"
#include "dist/collective/allgatherv.h"
#include "dist/collective/meeting.h"
#include "dist/method/method.h"
#include "dist/plan/choice.h"
#include "tests/cuda_devices.h"
#include "tests/dense_training.h"
#include "tests/error_of.h"
#include "tests/on_host.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

/// Multiples of 1/64, so that the order in which ranks are summed does not matter, and elements tie.
float coarse_gradient(int rank, int step, std::size_t i, float x) {
  const float noise = Random(7, Purpose::test, static_cast<std::uint64_t>(step * 100 + rank), i).normal();
  return std::round(16 * (noise + std::sin(0.3f * static_cast<float>(i)))) / 64 + 0.5f * x;
}

/// Multiplies by powers of two alone: bits depend on no fused multiply-add.
void eighth_of_mean(Parameter& p, Rows rows, const StepContext& context) {
  dense_training::sgd_by(p, rows, 0.125f * static_cast<float>(context.gradient_scale));
}

struct Ef21Rules {
  double density = 1e-3;
  std::string selector = "exact";
  double eta = 0.1;

  std::unique_ptr<Method> method() const {
    return dist::method("ef21", {{"density", concat(density)}, {"selector", selector}, {"ef21-eta", concat(eta)}});
  }
};

struct FeedbackCase {
  Ef21Rules rules{.density = 0.05, .eta = 0.5};
  PlanOptions plan{.chunk_bytes = 0};
  Overlap overlap = Overlap::forward;
  int threads = 1;
  Device device = kCpu;
  bool mean = true;
};

struct FeedbackResult {
  std::vector<float> values, estimate, joint;
};

Plan plan_of(const FeedbackCase& c, const ParameterArena& arena, int N) {
  return make_plan(arena.parameters(), c.plan, N);
}

void fill_zero(const ParameterArena& arena) {
  for (const auto& p : arena.parameters()) raw::fill(p->value(), 0.0f);
}

/// By rank, after some steps.
std::vector<FeedbackResult> train_with_feedback(int N, int steps, const FeedbackCase& c) {
  std::vector<FeedbackResult> all(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    set_kernel_threads(c.threads);
    const ParameterArena arena(dense_training::some_parameters(), c.device);
    fill_zero(arena);
    const Plan plan = plan_of(c, arena, N);
    const TrainingFacts facts{.workers = N, .mean = c.mean, .overlap = c.overlap, .seed = 3};
    const auto half = c.rules.method()->worker(
        {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = eighth_of_mean});
    Strategy& sync = *half;
    for (int step = 1; step <= steps; ++step) {
      sync.begin_step({.step = step, .lr = 1});
      whole_forward(sync, arena);
      for (const auto& p : arena.parameters()) {
        {
          OnHost value(p->value()), grad(p->grad());
          for (std::int64_t i = 0; i < p->info.elements; ++i)
            grad[i] = coarse_gradient(w.rank, step, static_cast<std::size_t>(p->info.offset + i), value[i]);
        }
        sync.gradient_ready(*p, p->all_rows());
      }
      sync.end_step();
    }
    sync.flush();
    RankState state;
    sync.save(state);
    all[static_cast<std::size_t>(w.rank)] = {arena.values().to_vector(), state.at("ef21/h").to_vector(),
                                             state.at("ef21/g").to_vector()};
  });
  return all;
}

/// The places of the k largest magnitudes, of equal ones the first. By sorting.
std::vector<std::size_t> slow_top_k(const std::vector<float>& x, double density) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(static_cast<std::size_t>(std::max(1.0, std::ceil(density * static_cast<double>(x.size())))));
  return order;
}

/// EF21-SGDM, Algorithm 1, of n elements from `offset` on.
struct SlowFeedback {
  std::vector<float> x, g;
  std::vector<std::vector<float>> h;  // the paper's g_i
};
SlowFeedback slow_feedback(int N, int steps, const Ef21Rules& rules, std::size_t offset, std::size_t n) {
  const auto workers = static_cast<std::size_t>(N);
  const auto eta = static_cast<float>(rules.eta);
  const std::vector<float> zeros(n);
  SlowFeedback s{zeros, zeros, std::vector<std::vector<float>>(workers, zeros)};
  std::vector<std::vector<float>> v(workers, zeros);
  for (int step = 1; step <= steps; ++step) {
    for (std::size_t r = 0; r < workers; ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        const float gradient = coarse_gradient(static_cast<int>(r), step, offset + i, s.x[i]);
        v[r][i] = step == 1 ? gradient : (1 - eta) * v[r][i] + eta * gradient;
      }
      std::vector<float> c(n);
      for (std::size_t i = 0; i < n; ++i) c[i] = v[r][i] - s.h[r][i];
      std::vector<std::size_t> sent(n);
      std::iota(sent.begin(), sent.end(), std::size_t{0});
      if (step > 1) sent = slow_top_k(c, rules.density);
      for (const std::size_t i : sent) s.h[r][i] += c[i], s.g[i] += c[i] / static_cast<float>(N);
    }
    for (std::size_t i = 0; i < n; ++i) s.x[i] -= 0.125f * s.g[i];
  }
  return s;
}

TEST(Ef21, DoesWhatTheAlgorithmSaysBitByBitWhateverTheOverlap) {
  constexpr int kSteps = 4;
  for (const int N : {1, 2, 4})
    for (const double eta : {0.5, 1.0})
      for (const std::size_t chunk : {0, 7000}) {
        if ((eta == 0.5) != (chunk == 0) && N != 2) continue;
        SCOPED_TRACE(concat(N, " ranks, eta ", eta, ", chunks of ", chunk));
        FeedbackCase c;
        c.rules.eta = eta, c.plan.chunk_bytes = chunk;
        std::vector<std::vector<FeedbackResult>> results;
        for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
          c.overlap = overlap;
          results.push_back(train_with_feedback(N, kSteps, c));
        }
        const ParameterArena arena(dense_training::some_parameters());
        for (const Bucket& bucket : plan_of(c, arena, N).buckets)
          for (int k = bucket.first; k < bucket.first + bucket.count; ++k) {
            const ParameterInfo& info = arena.parameters()[static_cast<std::size_t>(k)]->info;
            const auto offset = static_cast<std::size_t>(bucket.chunk() ? bucket.offset : info.offset);
            const auto n = static_cast<std::size_t>(bucket.chunk() ? bucket.elements : info.elements);
            const SlowFeedback slow = slow_feedback(N, kSteps, c.rules, offset, n);
            for (const auto& fast : results)
              for (std::size_t r = 0; r < fast.size(); ++r)
                for (std::size_t i = 0; i < n; ++i) {
                  ASSERT_EQ(fast[r].values[offset + i], slow.x[i]) << info.name << " [" << i << "], rank " << r;
                  ASSERT_EQ(fast[r].joint[offset + i], slow.g[i]) << info.name << " [" << i << "], rank " << r;
                  ASSERT_EQ(fast[r].estimate[offset + i], slow.h[r][i]) << info.name << " [" << i << "], rank " << r;
                }
          }
      }
}

TEST(Ef21, HoldsTheMeanOfAllEstimatesByEverySelector) {
  for (const compress::SelectorKind& kind : compress::selectors()) {
    if (!kind.traits.by_name || !kind.traits.by_k || kind.traits.needs_latest) continue;
    SCOPED_TRACE(kind.name);
    FeedbackCase c;
    c.rules.selector = kind.name;
    const auto first = train_with_feedback(3, 6, c);
    const std::vector<float>& g = first[0].joint;
    for (std::size_t i = 0; i < g.size(); ++i)
      ASSERT_NEAR(g[i], (first[0].estimate[i] + first[1].estimate[i] + first[2].estimate[i]) / 3, 1e-5) << i;
    for (const FeedbackResult& rank : first) {
      ASSERT_TRUE(same_bits(rank.values, first[0].values));
      ASSERT_TRUE(same_bits(rank.joint, first[0].joint));
    }
    EXPECT_FALSE(same_bits(first[0].estimate, first[1].estimate)) << "each worker has its own";
    FeedbackCase other = c;
    other.overlap = Overlap::none, other.threads = 3, other.plan.bucket_bytes = 0, other.device = kTrap;
    const auto second = train_with_feedback(3, 6, other);
    ASSERT_TRUE(same_bits(second[1].values, first[0].values));
    ASSERT_TRUE(same_bits(second[2].estimate, first[2].estimate));
    for (const Device device : with_cuda({})) {
      c.device = device;
      const auto there = train_with_feedback(3, 6, c);
      ASSERT_TRUE(same_bits(there[1].values, first[1].values));
      ASSERT_TRUE(same_bits(there[2].estimate, first[2].estimate));
    }
  }
}

TEST(Ef21, ThatSendsAllIsDenseTraining) {
  for (const int N : {1, 3})
    for (const bool mean : {true, false}) {
      const ParameterArena oracles(dense_training::some_parameters());
      const std::vector<double> x = dense_training::oracle(oracles, N, 4, mean ? N : 1);
      on_ranks(N, [&](Worker& w) {
        const ParameterArena arena(dense_training::some_parameters());
        const Plan plan = make_plan(arena.parameters(), {.chunk_bytes = 7000}, N);
        const TrainingFacts facts{.workers = N, .mean = mean};
        const auto sync = Ef21Rules{.density = 1, .eta = 1}.method()->worker(
            {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
        dense_training::train(*sync, arena, w.rank, 1, 4);
        const std::vector<float> values = arena.values().to_vector();
        for (const auto& p : arena.parameters())
          for (auto i = static_cast<std::size_t>(p->info.offset), end = i + static_cast<std::size_t>(p->info.elements);
               i < end; ++i)
            ASSERT_NEAR(values[i], x[i], 1e-5) << p->info.name;
      });
    }
}

/// A step of gradients that are a formula of the rank.
void one_step(Strategy& sync, const ParameterArena& arena, int rank, int step) {
  dense_training::train(sync, arena, rank, step, step);
}

TEST(Ef21, SendsWhatItAndItsLedgerSay) {
  for (const int N : {2, 3, 5}) {
    double sent = 0, owned = 0, expected = 0;
    on_ranks(N, [&](Worker& w) {
      const auto made = method("ef21", {{"density", "0.03"}});
      const ParameterArena arena(dense_training::some_parameters());
      const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = 1000, .chunk_bytes = 0}, N);
      const TrainingFacts facts{.workers = N, .ledger_every = 2};
      const auto sync = made->worker(
          {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
      one_step(*sync, arena, w.rank, 1);
      const auto own = [&] {
        double bytes = 0;
        for (const LedgerRow& row : sync->ledger()) bytes += row.bytes;
        return bytes;
      };
      std::vector<double> sums{-static_cast<double>(w.engine.counters().sent.bytes), -own()};
      for (int step = 2; step < 12; ++step) one_step(*sync, arena, w.rank, step);
      sums[0] += static_cast<double>(w.engine.counters().sent.bytes), sums[1] += own();
      for (const LedgerRow& row : sync->ledger()) {
        EXPECT_EQ(row.exchanges, 10);
        EXPECT_EQ(row.measured, 5);
        EXPECT_EQ(row.sent, static_cast<double>(elements_to_send(row.elements, 0.03))) << row.parameter;
        EXPECT_GE(row.union_density * static_cast<double>(row.elements), 0.999 * row.sent);
      }
      w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, slice(sums)); });
      if (w.rank > 0) return;
      sent = sums[0] / 10 / N, owned = sums[1] / 10 / N;
      expected = made->expected_bytes(plan, arena.parameters(), facts).value();
    });
    EXPECT_NEAR(sent, expected, 0.08 * expected) << N;
    EXPECT_NEAR(sent, owned, 0.02 * sent) << N << ": the ledger leaves out what stands before a bucket";
  }
}

TEST(Ef21, NamesWhatHasNoNumber) {
  expect_error<Error>(
      [] {
        on_ranks(2, [](Worker& w) {
          const ParameterArena arena(dense_training::some_parameters());
          const Plan plan = make_plan(arena.parameters(), {}, 2);
          const TrainingFacts facts{.workers = 2};
          const auto half = Ef21Rules{}.method()->worker(
              {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
          Strategy& sync = *half;
          for (int step = 1; step < 3; ++step) {
            sync.begin_step({.step = step, .lr = 1});
            whole_forward(sync, arena);
            for (const auto& p : arena.parameters()) {
              raw::fill(p->grad(), 1.0f);
              if (step == 2 && w.rank == 1 && p->info.name == "p4") p->grad().data<float>()[77] = std::nanf("");
              sync.gradient_ready(*p, p->all_rows());
            }
          }
          sync.flush();
        });
      },
      {"the momentum of p4 at step 2", "`clip`"});
}

TEST(Ef21, NamesWhoSentAMessageThatIsNone) {
  for (const std::size_t length : {0, 3, 4, 40, 64})
    expect_error<CommError>(
        [&] {
          on_ranks(2, [&](Worker& w) {
            const ParameterArena arena(dense_training::some_parameters());
            const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = 1 << 20, .chunk_bytes = 0}, 2);
            ASSERT_EQ(plan.buckets.size(), 1u);
            const TrainingFacts facts{.workers = 2, .overlap = Overlap::none};
            const auto half = Ef21Rules{.density = 0.1}.method()->worker(
                {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
            Strategy& sync = *half;
            one_step(sync, arena, w.rank, 1);
            if (w.rank == 0) return one_step(sync, arena, w.rank, 2);
            std::vector<std::byte> garbage(length, std::byte{0xEE});
            if (length == 64)  // so many parts as there should be
              for (std::size_t i = 0; i < length; i += 8)
                std::fill_n(garbage.begin() + static_cast<long>(i), 4, std::byte{0}), garbage[i] = std::byte{4};
            Gathered all;
            w.engine.wait(w.engine.submit({.name = "garbage", .slot = 1, .body = [&](Communicator& comm) {
                                             return allgatherv(comm, slice(std::as_const(garbage)), 1 << 16, all);
                                           }}));
          });
        },
        {"rank 1 sent"});
}

TEST(Ef21, RefusesTheStateOfAnotherModel) {
  on_ranks(1, [](Worker& w) {
    const ParameterArena arena(dense_training::some_parameters());
    const Plan plan = make_plan(arena.parameters(), {}, 1);
    const TrainingFacts facts{};
    const auto half = Ef21Rules{}.method()->worker(
        {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
    Strategy& sync = *half;
    RankState state;
    sync.save(state);
    EXPECT_NO_THROW(sync.load(state));
    state.set("ef21/h", Tensor::zeros({3}), Join::mean);
    expect_error<DataError>([&] { sync.load(state); }, {"h of ef21", "Give the same options"});
  });
}

}  // namespace
}  // namespace laconic::dist
