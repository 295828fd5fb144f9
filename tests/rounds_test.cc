#include "dist/method/rounds/rounds.h"

#include <algorithm>
#include <numeric>

#include "dist/method/method.h"
#include "tests/dense_training.h"
#include "tests/error_of.h"
#include "tests/on_host.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"

namespace laconic::dist::rounds_test {
namespace {

using compress::TopKWire;

using namespace dense_training;
using Rules = RoundsRules;

struct Outcome {
  std::vector<std::vector<float>> values, joint;  // by rank
  double drift = 0;
};

struct Setting {
  int workers = 3;
  Rules rules{};
  Overlap overlap = Overlap::forward;
  PlanOptions plan{};
  bool flushes = false;  // after every step
  Update update = sgd;
};

Outcome run(const Setting& s, int steps) {
  const auto N = static_cast<std::size_t>(s.workers);
  Outcome outcome{.values = std::vector<std::vector<float>>(N), .joint = std::vector<std::vector<float>>(N)};
  on_ranks(s.workers, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    const TrainingFacts facts{.workers = s.workers, .overlap = s.overlap};
    const Plan plan = make_plan(arena.parameters(), s.plan, s.workers);
    const std::unique_ptr<Strategy> made = make_rounds_worker(
        {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = s.update}, s.rules);
    Strategy& sync = *made;
    for (int step = 1; step <= (s.flushes ? steps : 0); ++step) train(sync, arena, w.rank, step, step);
    if (!s.flushes) train(sync, arena, w.rank, 1, steps);
    const auto r = static_cast<std::size_t>(w.rank);
    outcome.values[r] = arena.values().to_vector();
    sync.show_joint_model();
    outcome.joint[r] = arena.values().to_vector();
    sync.hide_joint_model();
    EXPECT_TRUE(same_bits(arena.values().to_vector(), outcome.values[r]));
    if (w.rank == 0) outcome.drift = *sync.drift();
  });
  return outcome;
}

/// The algorithm element by element, in one thread and double. Every parameter is a fragment, or all are one.
std::vector<std::vector<double>> oracle(int N, const Rules& rules, int steps) {
  const ParameterArena arena(some_parameters());
  const std::vector<float> start = arena.values().to_vector();
  std::vector<std::vector<double>> w(static_cast<std::size_t>(N), {start.begin(), start.end()});
  for (const auto& p : arena.parameters()) {
    const std::int64_t ahead = rules.fragments == 1 ? 0 : p->info.index * rules.every / rules.fragments;
    for (std::int64_t e = p->info.offset; e < p->info.offset + p->info.elements; ++e) {
      const auto i = static_cast<std::size_t>(e);
      double x = start[i], v = 0, came = 0;
      std::int64_t due = 0;
      for (int step = 1; step <= steps; ++step) {
        double sum = 0;
        for (int r = 0; r < N; ++r) {
          double& own = w[static_cast<std::size_t>(r)][i];
          const double gradient = gradient_at(r, step, i, static_cast<float>(own));
          sum += gradient;
          if (step > rules.dense_steps) own -= lr_of(step) * gradient;
        }
        if (step <= rules.dense_steps) {
          for (auto& own : w) x = own[i] -= lr_of(step) * sum / N;
          continue;
        }
        if ((step - rules.dense_steps + ahead) % rules.every == 0) {
          came = 0;
          for (const auto& own : w) came += (x - own[i]) / N;
          due = step + rules.delay;
        }
        if (due != step) continue;
        v = rules.momentum * v + came;
        x -= rules.lr * (rules.nesterov ? came + rules.momentum * v : v);
        for (auto& own : w) own[i] = rules.mix * own[i] + (1 - rules.mix) * x;
      }
    }
  }
  return w;
}

void expect_near(const std::vector<std::vector<float>>& values, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t r = 0; r < values.size(); ++r)
    for (std::size_t i = 0; i < values[r].size(); ++i)
      ASSERT_NEAR(values[r][i], expected[r][i], 1e-4 * (1 + std::abs(expected[r][i]))) << "rank " << r << ", " << i;
}

TEST(Rounds, OfOneStepAreDenseStepsForEveryAllreduce) {
  for (const std::string& allreduce : algorithms())
    for (const int N : {1, 2, 3}) {
      SCOPED_TRACE(concat(allreduce, ", ", N, " workers"));
      std::vector<double> dense;
      {
        const ParameterArena arena(some_parameters());
        dense = dense_training::oracle(arena, N, 5, N);
      }
      const Outcome rounds =
          run({.workers = N, .rules = {.every = 1}, .plan = plan_options(allreduce, "copy:10KiB", 0)}, 5);
      expect_near(rounds.values, std::vector(static_cast<std::size_t>(N), dense));
      EXPECT_LT(rounds.drift, 1e-6);
    }
}

const Rules kRules[] = {
    {.every = 4},
    {.every = 3, .lr = 0.7, .momentum = 0.9, .nesterov = true},
    {.every = 5, .lr = 0.8, .momentum = 0.5, .dense_steps = 2},
    {.every = 4, .delay = 3, .mix = 0.5, .lr = 0.7, .momentum = 0.9, .nesterov = true},
    {.every = 6, .fragments = 8, .delay = 2, .mix = 0.25, .lr = 0.9},
    {.every = 3, .fragments = 8, .delay = 1, .lr = 0.7, .momentum = 0.9, .nesterov = true, .dense_steps = 2},
    {.every = 100},
};

TEST(Rounds, DoWhatTheFormulaSaysAndNeitherOverlapNorAFlushChangesABit) {
  for (const Rules& rules : kRules)
    for (const int N : {1, 3}) {
      SCOPED_TRACE(concat(N, " workers, H = ", rules.every, ", P = ", rules.fragments, ", TAU = ", rules.delay));
      Setting setting{.workers = N, .rules = rules, .plan = {.bucket_bytes = 0, .chunk_bytes = 7000}};
      const Outcome first = run(setting, 13);
      expect_near(first.values, oracle(N, rules, 13));
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        setting.overlap = overlap, setting.flushes = overlap != Overlap::backward;
        const Outcome other = run(setting, 13);
        for (std::size_t r = 0; r < first.values.size(); ++r)
          EXPECT_TRUE(same_bits(other.values[r], first.values[r])) << to_string(overlap);
      }
      for (const auto& joint : first.joint) EXPECT_TRUE(same_bits(joint, first.joint[0]));
      for (std::size_t i = 0; i < first.joint[0].size(); ++i) {
        double mean = 0;
        for (const auto& values : first.values) mean += values[i] / N;
        ASSERT_NEAR(first.joint[0][i], mean, 1e-5 * (1 + std::abs(mean)));
      }
      EXPECT_EQ(first.drift > 1e-6, N > 1);
    }
}

TEST(Rounds, PassThroughACodecAndKeepWhatItLoses) {
  const Rules rules{.every = 2, .lr = 0.7, .momentum = 0.9, .nesterov = true};
  Setting setting{.workers = 3, .rules = rules};
  const Outcome plain = run(setting, 9);
  setting.plan.codec = "bf16";
  const Outcome coded = run(setting, 9);
  EXPECT_FALSE(same_bits(coded.values[0], plain.values[0]));
  for (std::size_t i = 0; i < plain.values[0].size(); ++i)
    ASSERT_NEAR(coded.values[0][i], plain.values[0][i], 2e-2 * (1 + std::abs(plain.values[0][i])));
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

void expect_bytes_as_said(int workers, const Pairs& settings, double tolerance) {
  const auto method = dist::method("rounds", settings);
  on_ranks(workers, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    const TrainingFacts facts{.workers = workers};
    const Plan plan = make_plan(arena.parameters(), {}, workers);
    const auto sync = method->worker({.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = sgd});
    std::uint64_t sent = w.engine.counters().sent.bytes;
    for (int step = 1; step <= 8; ++step) {
      train(*sync, arena, w.rank, step, step);
      const std::uint64_t now = w.engine.counters().sent.bytes;
      const double expected = step % 4 == 0 ? 4 * *method->expected_bytes(plan, arena.parameters(), facts) : 0;
      EXPECT_NEAR(static_cast<double>(now - std::exchange(sent, now)), expected, tolerance * expected)
          << "step " << step;
    }
  });
}

TEST(Rounds, SendOnlyWhenOneEndsAndAsMuchAsTheySay) {
  expect_bytes_as_said(2, {{"every", "4"}}, 0.02);
  expect_bytes_as_said(3, {{"every", "4"}, {"density", "0.03"}}, 0.1);
  expect_bytes_as_said(2, {{"every", "4"}, {"density", "0.03"}, {"value-bits", "32"}}, 0.1);
  expect_bytes_as_said(4, {{"every", "4"}, {"pairs", ""}, {"outer", "momentum"}}, 0.02);
}

// SparseLoCo.

/// Every number that it is multiplied by is a power of two: so no product rounds, and bits depend on no fused
/// multiply-add.
void eighth_sgd(Parameter& p, Rows rows, const StepContext&) { sgd_by(p, rows, 0.125f); }

/// What is sent of e, which keeps the rest. By sorting.
std::vector<float> sent_of(float* e, std::size_t n, const TopKWire& wire) {
  const auto k = static_cast<std::size_t>(std::max(1.0, std::ceil(wire.density * static_cast<double>(n))));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(e[a]) > std::abs(e[b]); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  double mean = 0, sums[2] = {0, 0}, counts[2] = {0, 0};
  for (const std::size_t i : order) mean += std::abs(double{e[i]});
  mean /= static_cast<double>(k);
  for (const std::size_t i : order) {
    const int level = std::abs(double{e[i]}) < mean ? 0 : 1;
    sums[level] += std::abs(double{e[i]}), ++counts[level];
  }
  std::vector<float> sent(n);
  for (const std::size_t i : order) {
    const int level = std::abs(double{e[i]}) < mean ? 0 : 1;
    sent[i] = wire.two_bits ? std::copysign(static_cast<float>(sums[level] / counts[level]), e[i]) : e[i];
    e[i] -= sent[i];
  }
  return sent;
}

/// SparseLoCo in one thread. N and all factors of the rules are powers of two. Every message is a fragment, or all are
/// one; each is a parameter, or rows of one.
std::vector<std::vector<float>> sparse_oracle(int N, const Rules& rules, const Plan& plan, int steps) {
  const ParameterArena arena(some_parameters());
  const auto workers = static_cast<std::size_t>(N);
  std::vector<float> x = arena.values().to_vector(), v(x.size());
  std::vector<std::vector<float>> w(workers, x), e(workers, std::vector<float>(x.size()));
  const auto lr = static_cast<float>(rules.lr), m = static_cast<float>(rules.momentum),
             mix = static_cast<float>(rules.mix), beta = static_cast<float>(rules.feedback);
  for (const Bucket& bucket : plan.buckets) {
    const std::int64_t ahead = rules.fragments == 1 ? 0 : bucket.first * rules.every / rules.fragments;
    const auto begin = static_cast<std::size_t>(bucket.offset);
    const std::size_t n = static_cast<std::size_t>(
        bucket.chunk() ? bucket.elements : arena.parameters()[static_cast<std::size_t>(bucket.first)]->info.elements);
    std::vector<float> sum(n);
    std::int64_t due = 0;
    for (int step = 1; step <= steps; ++step) {
      for (std::size_t r = 0; r < workers; ++r)
        for (std::size_t i = begin; i < begin + n; ++i)
          w[r][i] -= 0.125f * gradient_at(static_cast<int>(r), step, i, w[r][i]);
      if ((step + ahead) % rules.every == 0) {
        sum.assign(n, 0);
        for (std::size_t r = 0; r < workers; ++r) {
          for (std::size_t i = begin; i < begin + n; ++i) e[r][i] = beta * e[r][i] + (x[i] - w[r][i]);
          for (std::size_t from = 0; from < n; from += 4096) {
            const auto sent = sent_of(e[r].data() + begin + from, std::min<std::size_t>(4096, n - from), *rules.chosen);
            for (std::size_t i = 0; i < sent.size(); ++i) sum[from + i] += sent[i];
          }
        }
        due = step + rules.delay;
      }
      if (due != step) continue;
      for (std::size_t i = begin; i < begin + n; ++i) {
        const float D = sum[i - begin] / static_cast<float>(N);
        v[i] = m * v[i] + D;
        if (rules.nesterov) x[i] -= lr * D;
        x[i] -= m == 0 ? lr * D : rules.nesterov ? lr * m * v[i] : lr * v[i];
        for (auto& own : w) own[i] = mix == 0 ? x[i] : mix * own[i] + (1 - mix) * x[i];
      }
    }
  }
  return w;
}

const Rules kSparseRules[] = {
    {.every = 4, .chosen = TopKWire{.density = 0.03, .two_bits = true}, .feedback = 0.5},
    {.every = 2, .chosen = TopKWire{.density = 0.01}, .feedback = 1},
    {.every = 3, .lr = 0.5, .chosen = TopKWire{.density = 0.3, .two_bits = true}, .feedback = 0},
    {.every = 4,
     .delay = 3,
     .mix = 0.5,
     .lr = 0.5,
     .momentum = 0.5,
     .nesterov = true,
     .chosen = TopKWire{.density = 0.1, .two_bits = true},
     .feedback = 0.5},
    {.every = 6,
     .fragments = 8,
     .delay = 2,
     .mix = 0.5,
     .momentum = 0.5,
     .chosen = TopKWire{.density = 0.05},
     .feedback = 0.5},
};

TEST(SparseRounds, DoWhatTheFormulaSaysBitByBitWhateverTheOverlap) {
  for (const Rules& rules : kSparseRules)
    for (const int N : {1, 2, 4}) {
      SCOPED_TRACE(concat(N, " workers, H = ", rules.every, ", P = ", rules.fragments, ", TAU = ", rules.delay));
      const bool chunks = rules.fragments == 1 && N == 2;
      Setting setting{.workers = N,
                      .rules = rules,
                      .plan = {.bucket_bytes = 0, .chunk_bytes = chunks ? std::size_t{7000} : 0},
                      .update = eighth_sgd};
      const ParameterArena arena(some_parameters());
      const auto expected = sparse_oracle(N, rules, make_plan(arena.parameters(), setting.plan, N), 13);
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        setting.overlap = overlap, setting.flushes = overlap != Overlap::backward;
        const Outcome outcome = run(setting, 13);
        for (const auto& p : arena.parameters())
          for (std::size_t r = 0; r < expected.size(); ++r)
            for (std::int64_t i = p->info.offset; i < p->info.offset + p->info.elements; ++i)
              ASSERT_EQ(outcome.values[r][static_cast<std::size_t>(i)], expected[r][static_cast<std::size_t>(i)])
                  << to_string(overlap) << ", rank " << r << ", " << p->info.name << " [" << i - p->info.offset << "]";
      }
      if (rules.fragments > 1 || N == 4) continue;
      setting.plan.bucket_bytes = 1 << 20;  // neighbours travel together, with the padding between them
      const Outcome fused = run(setting, 13);
      setting.plan.bucket_bytes = 0;
      EXPECT_TRUE(same_bits(fused.values[0], run(setting, 13).values[0]));
    }
}

TEST(SparseRounds, ThatSendAllAndForgetNothingAreLocalSgd) {
  for (const int N : {1, 2, 3}) {
    const Rules local{.every = 4};
    Rules all = local;
    all.chosen = TopKWire{.density = 1};
    expect_near(run({.workers = N, .rules = all}, 13).values, oracle(N, local, 13));
  }
}

/// Four values of 8 are chosen: 5 and -7 reach their mean magnitude of 4, 1 and -3 do not.
TEST(SparseRounds, OfTwoBitsSendMeansOfMagnitudes) {
  const TopKWire wire{.density = 0.5, .two_bits = true};
  EXPECT_EQ(wire.counts(8), std::vector<std::size_t>{4});
  const std::vector<std::uint32_t> indices{0, 2, 5, 7};
  std::vector<float> values{5, -3, 1, -7}, dense(8, 10.0f);
  compress::Bytes payload;
  wire.encode(slice(indices), slice(values), std::vector<std::size_t>{4}, 8, payload);
  EXPECT_EQ(values, (std::vector<float>{6, -2, 2, -6}));
  EXPECT_LE(payload.size(), wire.max_bytes(4, 1, 8));
  wire.decode_add(payload.slice(), std::vector<std::size_t>{4}, 0.5f, slice(dense));
  EXPECT_EQ(dense, (std::vector<float>{13, 10, 9, 10, 10, 11, 10, 7}));
}

TEST(SparseRounds, ReadNothingThatIsNoMessage) {
  constexpr std::size_t n = 5000;
  for (const bool two_bits : {false, true}) {
    const TopKWire wire{.density = 0.02, .two_bits = two_bits};
    const std::vector<std::size_t> counts = wire.counts(n);
    std::vector<std::uint32_t> indices;
    for (std::size_t c = 0; c < counts.size(); ++c)
      for (std::size_t i = 0; i < counts[c]; ++i) indices.push_back(static_cast<std::uint32_t>(4096 * c + 40 * i));
    std::vector<float> values(indices.size(), 2.0f), dense(n);
    compress::Bytes payload;
    wire.encode(slice(std::as_const(indices)), slice(values), counts, n, payload);
    const std::vector<std::byte> whole(payload.slice().begin(), payload.slice().end());
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_THROW(wire.decode_add(slice(cut), counts, 1.0f, slice(dense)), DataError) << bytes;
    }
    std::vector<std::byte> longer = whole;
    longer.resize(whole.size() + 4);
    EXPECT_THROW(wire.decode_add(slice(std::as_const(longer)), counts, 1.0f, slice(dense)), DataError);
    EXPECT_THROW(wire.decode_add(slice(whole), wire.counts(n + 4096), 1.0f, slice(dense)), DataError);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::vector<std::byte> damaged = whole;
      damaged[i] ^= std::byte{0x81};
      try {
        wire.decode_add(slice(std::as_const(damaged)), counts, 1.0f, slice(dense));
      } catch (const DataError&) {  // or other values
      }
    }
  }
}

TEST(SparseRounds, NameWhatHasNoNumber) {
  const auto spoil = [](Parameter& p, Rows rows, const StepContext& context) {
    eighth_sgd(p, rows, context);
    if (p.info.name == "p4") OnHost(p.value())[7] = std::nanf("");
  };
  Setting setting{.workers = 2, .rules = kSparseRules[0], .update = spoil};
  expect_error<Error>([&] { run(setting, 8); }, {"what was changed of p4 until step 4", "`clip`"});
}

// NoLoCo.

TEST(Pairs, AreAPerfectMatchingThatAllDrawAlike) {
  for (const int N : {1, 2, 3, 4, 7, 10})
    for (std::int64_t step = 1; step < 20; ++step) {
      int alone = 0;
      for (int rank = 0; rank < N; ++rank) {
        const std::optional<int> other = partner_of(rank, N, 5, step);
        if (!other) {
          ++alone;
          continue;
        }
        EXPECT_NE(*other, rank);
        EXPECT_EQ(partner_of(*other, N, 5, step), rank);
      }
      EXPECT_EQ(alone, N % 2);
    }
}

/// Each of the others a fifth of the time, and otherwise with another seed.
TEST(Pairs, AreDrawnEvenly) {
  std::vector<int> met(6);
  bool seeds_differ = false;
  for (std::int64_t step = 1; step <= 1000; ++step) {
    ++met[static_cast<std::size_t>(partner_of(0, 6, 1, step).value())];
    seeds_differ |= partner_of(0, 6, 1, step) != partner_of(0, 6, 2, step);
  }
  for (int other = 1; other < 6; ++other) EXPECT_NEAR(met[static_cast<std::size_t>(other)], 200, 50) << other;
  EXPECT_TRUE(seeds_differ);
}

/// NoLoCo in the paper's letters, element by element, in one thread and double. Every parameter is a fragment, or all
/// are one. The one that is left over is a group of its own.
std::vector<std::vector<double>> pairs_oracle(int N, const Rules& rules, int steps) {
  const double alpha = rules.momentum, beta = rules.lr, gamma = rules.pull;
  const ParameterArena arena(some_parameters());
  const std::vector<float> start = arena.values().to_vector();
  const auto workers = static_cast<std::size_t>(N);
  std::vector<std::vector<double>> theta(workers, {start.begin(), start.end()});
  for (const auto& p : arena.parameters()) {
    const std::int64_t ahead = rules.fragments == 1 ? 0 : p->info.index * rules.every / rules.fragments;
    std::vector<std::size_t> others(workers);
    for (std::int64_t e = p->info.offset; e < p->info.offset + p->info.elements; ++e) {
      const auto i = static_cast<std::size_t>(e);
      std::vector<double> phi(workers, start[i]), delta(workers), next(workers);
      std::int64_t due = 0;
      for (int step = 1; step <= steps; ++step) {
        for (std::size_t r = 0; r < workers; ++r)
          theta[r][i] -= lr_of(step) * gradient_at(static_cast<int>(r), step, i, static_cast<float>(theta[r][i]));
        if ((step + ahead) % rules.every == 0) {
          for (std::size_t r = 0; r < workers; ++r) {
            const int rank = static_cast<int>(r);
            const auto o = static_cast<std::size_t>(partner_of(rank, N, 0, step).value_or(rank));
            const double change = (theta[r][i] - phi[r] + theta[o][i] - phi[o]) / 2, mean = (phi[r] + phi[o]) / 2;
            next[r] = alpha * delta[r] + beta * change - gamma * (phi[r] - mean);
          }
          due = step + rules.delay;
        }
        if (due != step) continue;
        for (std::size_t r = 0; r < workers; ++r) {
          delta[r] = next[r];
          phi[r] += delta[r];
          theta[r][i] = rules.mix * theta[r][i] + (1 - rules.mix) * phi[r];
        }
      }
    }
  }
  return theta;
}

const Rules kPairRules[] = {
    {.every = 3, .lr = 0.7, .momentum = 0.5, .pairs = true, .pull = 0.7},
    {.every = 2, .pairs = true, .pull = 1},
    {.every = 6, .fragments = 8, .delay = 2, .mix = 0.25, .lr = 0.9, .momentum = 0.3, .pairs = true, .pull = 1.2},
};

TEST(Pairs, DoWhatTheFormulaSaysAndNeitherOverlapNorAFlushChangesABit) {
  for (const Rules& rules : kPairRules)
    for (const int N : {1, 2, 3, 4}) {
      SCOPED_TRACE(concat(N, " workers, H = ", rules.every, ", P = ", rules.fragments, ", TAU = ", rules.delay));
      Setting setting{.workers = N, .rules = rules, .plan = {.bucket_bytes = 0, .chunk_bytes = 7000}};
      const Outcome first = run(setting, 13);
      expect_near(first.values, pairs_oracle(N, rules, 13));
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        setting.overlap = overlap, setting.flushes = overlap != Overlap::backward;
        const Outcome other = run(setting, 13);
        for (std::size_t r = 0; r < first.values.size(); ++r)
          EXPECT_TRUE(same_bits(other.values[r], first.values[r])) << to_string(overlap);
      }
      for (const auto& joint : first.joint) EXPECT_TRUE(same_bits(joint, first.joint[0]));
      for (std::size_t i = 0; i < first.joint[0].size(); ++i) {
        double mean = 0;
        for (const auto& values : first.values) mean += values[i] / N;
        ASSERT_NEAR(first.joint[0][i], mean, 1e-5 * (1 + std::abs(mean)));
      }
      EXPECT_EQ(first.drift > 1e-6, N > 1);
    }
}

/// Two workers are all: without a pull bit by bit. With one they stay alike too, and it has nothing to do.
TEST(Pairs, OfTwoAreRoundsOfAll) {
  const Rules all{.every = 4, .lr = 0.7, .momentum = 0.5};
  Rules pairs = all;
  pairs.pairs = true;
  const Outcome expected = run({.workers = 2, .rules = all}, 12), without = run({.workers = 2, .rules = pairs}, 12);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(without.values[r], expected.values[r]));
  pairs.pull = 0.7;
  const Outcome with = run({.workers = 2, .rules = pairs}, 12);
  EXPECT_TRUE(same_bits(with.values[0], with.values[1]));
  expect_near(with.values, oracle(2, all, 12));
}

/// Workers learn in the first step alone, each something else.
TEST(Pairs, PullWorkersTogether) {
  const auto once = [](Parameter& p, Rows rows, const StepContext& context) {
    if (context.step == 1) sgd(p, rows, context);
  };
  for (const int N : {4, 5}) {
    Setting setting{.workers = N, .rules = {.every = 1, .lr = 0.7, .momentum = 0.5, .pairs = true}, .update = once};
    const double apart = run(setting, 40).drift;
    setting.rules.pull = 0.7;
    EXPECT_LT(run(setting, 40).drift, 1e-2 * apart) << N;
  }
}

TEST(Rounds, HaveNoMoreFragmentsThanMessages) {
  expect_error<UsageError>([] { run({.workers = 1, .rules = {.fragments = 9}, .plan = {.bucket_bytes = 0}}, 1); },
                           {"travels in 8 messages", "9 fragments", "`fragments`", "at most 8"});
}

}  // namespace
}  // namespace laconic::dist::rounds_test
