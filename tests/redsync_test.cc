// RedSync and its neighbours: exactness, conservation, the same bits on all ranks, resuming.
#include "dist/method/redsync/redsync.h"

#include "tests/cuda_devices.h"
#include "tests/pairwise.h"
#include "tests/redsync_training.h"
#include "tests/reference/redsync.h"

namespace laconic::dist {
namespace {

TEST(RedSync, WithAllElementsAndNoMaskingIsDenseMomentumSgd) {
  const std::pair<float, bool> momenta[] = {{0.0f, false}, {0.9f, false}, {0.9f, true}};
  for (const auto& row : combinations({std::size(momenta), 2, 2, 2})) {
    const auto [momentum, nesterov] = momenta[row[0]];
    const int N = row[1] == 0 ? 1 : 3;
    const bool mean = row[2] == 0;
    const float decay = row[3] == 0 ? 0.0f : 0.01f;
    SCOPED_TRACE(concat(N, " ranks, mean ", mean, ", momentum ", momentum, ", nesterov ", nesterov, ", decay ", decay));
    Settings s{.momentum = momentum, .decay = decay, .nesterov = nesterov, .mean = mean, .pull = 0.1f};
    s.sparse.density = 1;
    expect_near(train(N, s, 100)[0], oracle(N, s, 100), 2e-5);
  }
}

// All of U is cleared in every step: heavy ball becomes plain SGD, Nesterov SGD with lr (1 + m). What travels densely
// keeps its momentum.
TEST(RedSync, WithAllElementsMaskedIsPlainSgd) {
  for (const bool nesterov : {false, true}) {
    Settings s{.momentum = 0.9f, .decay = 0.01f, .nesterov = nesterov, .pull = 0.1f};
    s.sparse.density = 1;
    s.sparse.masking = true;
    expect_near(train(2, s, 100)[0], oracle(2, s, 100, true), 2e-5);
  }
}

TEST(RedSync, HasTheBitsOfAlgorithm4) {
  constexpr int N = 3, kSteps = 20;
  for (const auto& row : combinations({3, 2, 2})) {
    Settings s{.momentum = row[0] == 0 ? 0.0f : 0.9f, .decay = row[1] == 0 ? 0.0f : 0.01f, .nesterov = row[0] == 2};
    s.sparse.density = 0.02, s.sparse.masking = row[2] == 0, s.pull = 0.1f;
    SCOPED_TRACE(concat("momentum ", s.momentum, ", decay ", s.decay, ", nesterov ", s.nesterov));
    const std::vector<float> values = train(N, s, kSteps)[0];
    const reference::RedSync settings{.momentum = s.momentum,
                                      .weight_decay = s.decay,
                                      .use_nesterov = s.nesterov,
                                      .masking = s.sparse.masking,
                                      .density = s.sparse.density};
    const ParameterArena arena(redsync_parameters());
    for (const auto& p : arena.parameters()) {
      if (!is_large(p->info)) continue;
      const auto n = static_cast<std::size_t>(p->info.elements), first = static_cast<std::size_t>(p->info.offset);
      std::vector<float> w = p->value().to_vector();
      std::vector<reference::RedSyncLayer> workers(N, reference::RedSyncLayer(n));
      for (int step = 1; step <= kSteps; ++step) {
        std::vector<reference::Chosen> sent;
        for (int r = 0; r < N; ++r) {
          std::vector<float> gradient = w;
          Training::make_gradients(gradient.data(), n, r, step, first, s.pull);
          sent.push_back(workers[static_cast<std::size_t>(r)].step(settings, gradient, w));
        }
        reference::redsync_update(w, sent, s.lr);
      }
      const auto at = values.begin() + p->info.offset;
      EXPECT_TRUE(same_bits(w, std::vector<float>(at, at + p->info.elements))) << p->info.name;
    }
  }
}

TEST(RedSync, ManyElementsAreNotAllElements) {  // or the tests above would prove nothing about selection
  Settings s{.momentum = 0.9f};
  s.sparse.density = 0.5;
  const auto values = train(2, s, 10)[0];
  const auto all = oracle(2, s, 10);
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) most = std::max(most, std::abs(values[i] - all[i]));
  EXPECT_GT(most, 1e-3);
}

// Gradients that do not depend on w, one lr, no masking: when a dense phase has sent what was left, all is where dense
// training would be.
TEST(RedSync, FromDenseToSparseToDenseNothingIsLost) {
  for (const int N : {1, 3})
    for (const bool mean : {true, false})
      for (const bool nesterov : {false, true}) {
        SCOPED_TRACE(concat(N, " ranks, mean ", mean, ", nesterov ", nesterov));
        Settings s{.momentum = 0.9f, .nesterov = nesterov, .mean = mean};
        s.density = [](std::int64_t step) { return step <= 5 || step > 25 ? std::nullopt : std::optional(0.02); };
        expect_near(train(N, s, 30)[0], oracle(N, s, 30), 2e-5);
      }
}

TEST(RedSync, WithoutMomentumCorrectionTheResidualGoesWithTheNextDenseGradient) {
  for (const char* sync : {"topk", "gradient-dropping", "randomk"}) {
    Settings s{.sync = sync};
    s.density = [](std::int64_t step) { return step <= 5 || step > 25 ? std::nullopt : std::optional(0.02); };
    expect_near(train(3, s, 30)[0], oracle(3, s, 30), 2e-5);
  }
}

/// Over all ranks, everything that was sent and the residuals add up to everything that was put into the residuals.
TEST(RedSync, WhatWasSentPlusWhatIsOwedIsWhatWasGathered) {
  constexpr int kSteps = 120;  // more than a layer is hurried for after a wait
  for (const Case& c : kCases)
    for (const int N : {1, 3}) {
      if (N == 1 && &c > &kCases[2]) continue;  // the exchange is what differs
      SCOPED_TRACE(concat(c.name, ", ", N, " ranks"));
      Settings s = settings_of(c);
      if (s.clip > 0) continue;  // what was gathered is not known here
      s.mean = false, s.lr = 1;
      const bool corrects = sparse_method(s.sync)->corrects;
      if (!corrects) s.momentum = 0;
      const std::size_t ranks = static_cast<std::size_t>(N);
      std::vector<std::vector<double>> gathered(ranks), owed(ranks);
      std::vector<float> start, values;
      on_ranks(N, [&](Worker& w) {
        Training t(w, s);
        auto& mine = gathered[static_cast<std::size_t>(w.rank)];
        mine.assign(static_cast<std::size_t>(t.arena.size()), 0.0);
        if (w.rank == 0) start = t.values();
        for (int step = 1; step <= kSteps; ++step) {
          const std::vector<float> u = t.velocity.to_vector();
          t.steps(step, step);
          for (std::size_t i = 0; i < mine.size(); ++i) {
            const double g = gradient_at(w.rank, step, i);
            const double velocity = corrects ? double{s.momentum} * u[i] + g : g;
            mine[i] += s.nesterov ? s.momentum * velocity + g : velocity;
          }
        }
        const std::vector<float> v = t.sync->residual().to_vector();
        owed[static_cast<std::size_t>(w.rank)].assign(v.begin(), v.end());
        if (w.rank == 0) values = t.values();
      });
      const ParameterArena arena(redsync_parameters());
      for (const auto& p : arena.parameters()) {
        if (!is_large(p->info)) continue;
        for (auto i = static_cast<std::size_t>(p->info.offset);
             i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
          double in = 0, out = double{start[i]} - values[i];
          for (std::size_t r = 0; r < ranks; ++r) in += gathered[r][i], out += owed[r][i];
          ASSERT_NEAR(in, out, 1e-4 * (10 + std::abs(in))) << p->info.name << ", element " << i;
        }
      }
    }
}

TEST(RedSync, AllRanksHoldTheSameBitsWhateverTheOverlap) {
  for (const auto& row : combinations({std::size(kCases), 2})) {
    const Case& c = kCases[row[0]];
    const int N = row[1] == 0 ? 4 : 1 + static_cast<int>(row[0] % 9);
    SCOPED_TRACE(concat(c.name, ", ", N, " ranks"));
    Settings s = settings_of(c);
    std::vector<float> first;
    for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
      s.overlap = overlap;
      const auto values = train(N, s, 12);
      if (first.empty()) first = values[0];
      for (const auto& v : values) ASSERT_TRUE(same_bits(v, first)) << to_string(overlap);
    }
    for (const float v : first) ASSERT_TRUE(std::isfinite(v));
  }
}

TEST(RedSync, WithTheNextForwardToHideBehindChoosesWhatThatNeedsFirst) {
  const std::vector<std::string> by_forward{"conv", "fc1.weight", "fc2.weight", "embedding", "odd", "out.weight"};
  for (const Overlap overlap : {Overlap::backward, Overlap::forward}) {
    std::vector<std::string> chosen;
    Settings s{.overlap = overlap};
    s.watch = [&](const Parameter& p, Slice<const float>) { chosen.push_back(p.info.name); };
    on_ranks(1, [&](Worker& w) {  // who waits for nobody
      Training t(w, s);
      t.steps(1, 1);
    });
    std::vector<std::string> expected = by_forward;
    if (overlap == Overlap::backward) std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(chosen, expected) << to_string(overlap);
  }
}

TEST(RedSync, FlushingInBetweenChangesNoBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::vector<float> once, often;
    for (const bool flushed : {false, true})
      on_ranks(3, [&](Worker& w) {
        Training t(w, settings_of(c));
        if (flushed)
          for (int step = 1; step <= 8; ++step) t.steps(step, step);
        else
          t.steps(1, 8);
        if (w.rank == 1) (flushed ? often : once) = t.values();
      });
    EXPECT_TRUE(same_bits(once, often));
  }
}

TEST(RedSync, GoesOnFromItsSavedStateBitForBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Settings s = settings_of(c);
    const auto straight = train(3, s, 14);
    on_ranks(3, [&](Worker& w) {
      EXPECT_TRUE(same_bits(resumed(w, s, 7, 14)->values(), straight[static_cast<std::size_t>(w.rank)]));
    });
  }
}

TEST(RedSync, APhaseThatHasBegunIsNotBegunAgainAfterResuming) {
  Settings s{.momentum = 0.9f, .mean = false};
  s.density = [](std::int64_t step) { return step <= 5 ? std::nullopt : std::optional(0.02); };
  const auto straight = train(2, s, 12)[0];
  on_ranks(2, [&](Worker& w) { EXPECT_TRUE(same_bits(resumed(w, s, 8, 12)->values(), straight)); });
}

TEST(RedSync, RefusesAStateThatIsNotItsOwn) {
  on_ranks(1, [&](Worker& w) {
    Training t(w, {});
    RankState state;
    EXPECT_THROW(t.sync->load(state), DataError);
    t.sync->save(state);
    state.set("redsync/residual", Tensor::zeros({3}), Join::sum);
    EXPECT_THROW(t.sync->load(state), DataError);
  });
}

TEST(RedSync, AddsUpInRankOrder) {
  // One step in which every rank sends all of its gradient: the bits are those of one order of addition.
  constexpr int N = 9;
  Settings s{.lr = 1};
  s.sparse.density = 1;
  const ParameterArena arena(redsync_parameters());
  const auto added = [&](bool backwards) {
    std::vector<float> values = arena.values().to_vector();
    const float factor = -static_cast<float>(1.0 / N);
    for (std::size_t i = 0; i < values.size(); ++i)
      for (int r = 0; r < N; ++r) values[i] += factor * gradient_at(backwards ? N - 1 - r : r, 1, i);
    return values;
  };
  const std::vector<float> values = train(N, s, 1)[0], in_order = added(false), backwards = added(true);
  for (const auto& p : arena.parameters()) {
    if (!is_large(p->info)) continue;
    const auto of = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + p->info.offset, all.begin() + p->info.offset + p->info.elements);
    };
    EXPECT_TRUE(same_bits(of(values), of(in_order))) << p->info.name;
    EXPECT_FALSE(same_bits(of(values), of(backwards))) << p->info.name << ": the order makes no difference here";
  }
}

TEST(RedSync, ClipsEachWorkersOwnGradientBeforeItIsGathered) {
  const ParameterArena arena(redsync_parameters());
  double norm[2] = {0, 0};
  for (const auto& p : arena.parameters())
    for (std::int64_t i = p->info.offset; i < p->info.offset + p->info.elements; ++i)
      for (int r = 0; r < 2; ++r) norm[r] += std::pow(gradient_at(r, 1, static_cast<std::size_t>(i)), 2);
  for (double& n : norm) ASSERT_GT(n = std::sqrt(n), 3.5);
  for (const char* sync : {"redsync", "adacomp"}) {  // the one sends all of it, the other some
    SCOPED_TRACE(sync);
    Settings s{.sync = sync, .clip = 3, .lr = 1};
    s.sparse.density = 1;
    std::vector<float> moved, owed[2];
    on_ranks(2, [&](Worker& w) {
      Training t(w, s);
      const std::vector<float> start = t.values();
      t.steps(1, 1);
      owed[w.rank] = t.sync->residual().to_vector();
      if (w.rank != 0) return;
      moved = t.values();
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = start[i] - moved[i];
    });
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
        double clipped = 0;
        for (int r = 0; r < 2; ++r) clipped += gradient_at(r, 1, i) * 3 / norm[r];
        ASSERT_NEAR(2 * moved[i] + owed[0][i] + owed[1][i], clipped, 1e-5) << p->info.name;
      }
  }
}

TEST(RedSync, QuantisedSendsOneSignAtATimeAndKeepsTheErrorOnlyIfAsked) {
  for (const bool feedback : {true, false}) {
    Settings s{.lr = 1};
    s.sparse.quantised = true, s.sparse.feedback = feedback, s.sparse.density = 0.1;
    std::map<std::string, std::vector<float>> residuals;
    s.watch = [&](const Parameter& p, Slice<const float> v) { residuals[p.info.name] = {v.begin(), v.end()}; };
    on_ranks(1, [&](Worker& w) {
      Training t(w, s);
      for (int step = 1; step <= 4; ++step) {
        const std::vector<float> before = t.values();
        t.steps(step, step);
        const std::vector<float> after = t.values(), v = t.sync->residual().to_vector();
        for (const auto& p : t.arena.parameters()) {
          if (!is_large(p->info)) continue;
          const std::vector<float>& was = residuals.at(p->info.name);
          int sent = 0;
          for (std::int64_t i = 0; i < p->info.elements; ++i) {
            const auto at = static_cast<std::size_t>(p->info.offset + i);
            const float moved = before[at] - after[at];
            if (moved == 0) continue;
            ++sent;
            if (p->info.output) continue;  // with its own values, of both signs
            EXPECT_EQ(moved > 0, step % 2 == 1) << p->info.name;
            EXPECT_EQ(was[static_cast<std::size_t>(i)] > 0, step % 2 == 1) << p->info.name;
            EXPECT_NEAR(v[at], feedback ? was[static_cast<std::size_t>(i)] - moved : 0, 1e-5);
          }
          EXPECT_EQ(sent, elements_to_send(p->info.elements, 0.1)) << p->info.name;
        }
      }
    });
  }
}

TEST(RedSync, LeavesDeviceMemoryToKernels) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Settings s = settings_of(c);
    const auto expected = train(2, s, 4);
    s.device = kTrap;
    EXPECT_TRUE(same_bits(train(2, s, 4)[0], expected[0]));
  }
}

using RedSyncOnCuda = CudaTest;

TEST_F(RedSyncOnCuda, GivesTheBitsOfTheCpu) {
  const int steps = kSanitized ? 3 : 8;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Settings s = settings_of(c);
    if (s.clip > 0) continue;  // norms are added up in another order
    const auto expected = train(2, s, steps);
    s.device = kCuda;
    const auto values = train(2, s, steps);
    EXPECT_TRUE(same_bits(values[0], expected[0]));
    EXPECT_TRUE(same_bits(values[1], values[0]));
  }
}

}  // namespace
}  // namespace laconic::dist
