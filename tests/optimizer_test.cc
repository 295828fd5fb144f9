#include "optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"

namespace laconic {
namespace {

using testing::HasSubstr;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

nlohmann::json golden() { return nlohmann::json::parse(std::ifstream(LACONIC_SOURCE "/tests/golden/optim.json")); }

/// The two parameters of tests/golden/optim.py and their gradients.
struct Two {
  explicit Two(Device device = kCpu)
      : a(std::make_shared<Parameter>(Shape{7}, Role::linear)),
        b(std::make_shared<Parameter>(Shape{5}, Role::bias)),
        arena({a, b}, device) {
    fill(a->value(), 0, [](int i) { return std::cos(0.5 * i); });
    fill(b->value(), 7, [](int i) { return std::cos(0.5 * i); });
  }
  void make_gradients(int k) {
    const auto g = [k](int i) { return std::sin(0.7 * i + 1.3 * k) * (1 + 0.1 * i); };
    fill(a->grad(), 0, g);
    fill(b->grad(), 7, g);
  }
  template <class F>
  static void fill(const Tensor& t, int first, F f) {
    std::vector<float> values;
    for (int i = first; i < first + t.elements(); ++i) values.push_back(static_cast<float>(f(i)));
    t.copy_from(Tensor::of(t.shape(), values));
  }
  std::vector<float> values() const {
    std::vector<float> all = a->value().to_vector();
    for (const float v : b->value().to_vector()) all.push_back(v);
    return all;
  }
  std::shared_ptr<Parameter> a, b;
  ParameterArena arena;
};

struct Case {
  const char* name;
  OptimizerOptions options;
  Clip clip{};
};

std::vector<Case> cases() {
  const Optimizer::Decay decay{.weight_decay = 0.05}, weights_only{.weight_decay = 0.05, .norm_and_bias = false};
  std::vector<Case> all;
  const auto add = [&](const char* name, const OptimizerOptions& options, const std::string& clip = "none") {
    all.push_back({name, options, Clip::parse(clip)});
  };
  add("sgd", {.name = "sgd"});
  add("sgd_decay", {.name = "sgd", .decay = decay});
  add("sgd_momentum", {.name = "sgd", .momentum = 0.9});
  add("sgd_momentum_decay", {.name = "sgd", .momentum = 0.9, .decay = decay});
  add("sgd_dampening", {.name = "sgd", .momentum = 0.8, .dampening = 0.3, .decay = {.weight_decay = 0.01}});
  add("sgd_nesterov", {.name = "sgd", .momentum = 0.9, .nesterov = true, .decay = decay});
  add("sgd_no_decay_bias", {.name = "sgd", .momentum = 0.9, .decay = weights_only});
  add("sgd_clip_norm", {.name = "sgd", .momentum = 0.9}, "norm:1.5");
  add("sgd_clip_value", {.name = "sgd"}, "value:0.6");
  add("adam", {.name = "adam"});
  add("adam_decay", {.name = "adam", .decay = decay});
  add("adamw", {.name = "adamw", .decay = decay});
  add("adamw_no_decay_bias", {.name = "adamw", .decay = weights_only});
  add("adamw_betas", {.name = "adamw", .beta1 = 0.8, .beta2 = 0.95, .decay = decay});
  return all;
}

void step(Two& m, Optimizer& optimizer, const Clip& clip, int k) {
  m.make_gradients(k);
  double scale = 1;
  if (clip.kind == Clip::Kind::norm) scale = clip_scale(gradient_sum_of_squares(m.arena), clip.limit);
  if (clip.kind == Clip::Kind::value)
    for (const auto& p : m.arena.parameters()) clip_value(p->grad(), clip.limit);
  optimizer.update_all(0.1 / k, scale);
}

TEST(Optimizer, SaysHowManyArenasItKeeps) {
  for (const auto& o : {OptimizerOptions{}, OptimizerOptions{.momentum = 0.9}, OptimizerOptions{.name = "adam"},
                        OptimizerOptions{.name = "adamw"}}) {
    const Two two;
    StateDict state;
    make_optimizer(two.arena, o)->save(state);
    EXPECT_EQ(o.arenas() + 1, std::distance(state.begin(), state.end())) << o.name;  // and the counts of updates
  }
}

TEST(Optimizers, FollowPyTorchForTenSteps) {
  const auto curves = golden()["optimizers"];
  for (const Device device : with_cuda({kCpu, kTrap}))
    for (const Case& c : cases()) {
      Two m(device);
      const auto optimizer = make_optimizer(m.arena, c.options);
      const auto& curve = curves.at(c.name);
      ASSERT_EQ(curve.size(), 10u);
      for (int k = 1; k <= 10; ++k) {
        step(m, *optimizer, c.clip, k);
        const auto expected = curve[static_cast<std::size_t>(k - 1)].get<std::vector<float>>();
        const auto values = m.values();
        for (std::size_t i = 0; i < 12; ++i)
          EXPECT_NEAR(values[i], expected[i], 2e-6f) << c.name << ", step " << k << ", element " << i << ", " << device;
      }
    }
  EXPECT_EQ(curves.size(), cases().size());
}

TEST(Optimizers, ContinueBitForBitFromASavedState) {
  for (const Case& c : cases()) {
    Two whole, stopped, resumed;
    const auto all = make_optimizer(whole.arena, c.options), before = make_optimizer(stopped.arena, c.options),
               after = make_optimizer(resumed.arena, c.options);
    for (int k = 1; k <= 8; ++k) step(whole, *all, c.clip, k);
    for (int k = 1; k <= 3; ++k) step(stopped, *before, c.clip, k);
    resumed.arena.values().copy_from(stopped.arena.values());
    StateDict saved;
    before->save(saved);
    after->load(saved);
    for (int k = 4; k <= 8; ++k) step(resumed, *after, c.clip, k);
    EXPECT_EQ(resumed.values(), whole.values()) << c.name;
  }
}

TEST(Optimizers, RefuseAStateOfAnotherMethodOrArena) {
  Two m;
  ParameterArena other({std::make_shared<Parameter>(Shape{100}, Role::linear)});
  StateDict adam, small;
  make_optimizer(m.arena, {.name = "adam"})->save(adam);
  make_optimizer(other, {.momentum = 0.9})->save(small);
  const auto sgd = make_optimizer(m.arena, {.momentum = 0.9});
  EXPECT_THROW(sgd->load(adam), DataError);
  EXPECT_THROW(sgd->load(small), DataError);
  EXPECT_THROW(sgd->load(StateDict()), DataError);
}

TEST(Optimizers, UpdateParametersInAnyOrder) {
  Two forward, backward;
  const auto f = make_optimizer(forward.arena, {.name = "adam"}), b = make_optimizer(backward.arena, {.name = "adam"});
  for (int k = 1; k <= 5; ++k) {
    forward.make_gradients(k), backward.make_gradients(k);
    f->update(*forward.a, 0.1), f->update(*forward.b, 0.1);
    b->update(*backward.b, 0.1), b->update(*backward.a, 0.1);
  }
  EXPECT_EQ(forward.values(), backward.values());
}

TEST(Optimizers, TellThatTheValueChanged) {
  Two m;
  m.make_gradients(1);
  const std::uint64_t version = m.a->value().version();
  make_optimizer(m.arena, {})->update(*m.a, 0.5, 0.25);
  EXPECT_GT(m.a->value().version(), version);
}

TEST(Optimizers, LeaveTheArenasPaddingAlone) {
  Two m;
  const auto sgd = make_optimizer(m.arena, {.momentum = 0.9, .decay = {.weight_decay = 0.1}});
  for (int k = 1; k <= 3; ++k) step(m, *sgd, {}, k);
  const auto values = m.arena.values().to_vector(), momentum = sgd->momentum().to_vector();
  ASSERT_EQ(values.size(), 32u);
  for (std::size_t i = 5; i < 16; ++i) EXPECT_EQ(values[i], 0) << i;  // b comes first, then its padding
  for (std::size_t i = 23; i < 32; ++i) EXPECT_EQ(momentum[i], 0) << i;
}

TEST(Optimizers, GiveTheSameBitsOnAnyNumberOfThreadsAndFollowTheSlowLoop) {
  const int n = 100003;
  std::vector<float> w(n), g(n), m(n), v(n);
  Random random(5, Purpose::test);
  for (int i = 0; i < n; ++i) {
    const auto u = static_cast<std::size_t>(i);
    w[u] = random.normal(), g[u] = random.normal(), m[u] = random.normal(), v[u] = std::abs(random.normal());
  }
  const raw::SgdStep s{.lr = 0.1f,
                       .gradient_scale = 0.5f,
                       .weight_decay = 0.01f,
                       .momentum = 0.9f,
                       .dampening = 0.2f,
                       .nesterov = false,
                       .first = false};
  const raw::AdamStep a{.gradient_scale = 2,
                        .weight_decay = 0.1f,
                        .beta1 = 0.9f,
                        .beta2 = 0.99f,
                        .rest1 = 0.1f,
                        .rest2 = 0.01f,
                        .eps = 1e-8f,
                        .step_size = 0.01f,
                        .root_correction = 0.3f,
                        .keep = 1};
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    set_kernel_threads(threads);
    const Tensor sw = Tensor::of({n}, w), sm = Tensor::of({n}, m), aw = Tensor::of({n}, w), am = Tensor::of({n}, m),
                 av = Tensor::of({n}, v), tg = Tensor::of({n}, g);
    raw::sgd(sw, tg, sm, s);
    raw::adam(aw, tg, am, av, a);
    std::vector<float> all;
    for (const Tensor& t : {sw, sm, aw, am, av})
      for (const float x : t.to_vector()) all.push_back(x);
    results.push_back(all);
  }
  set_kernel_threads(1);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  const auto close = [&](int array, int i, double expected) {
    EXPECT_NEAR(results[0][static_cast<std::size_t>(array * n + i)], expected, 1e-5 * (1 + std::abs(expected)));
  };
  for (int i = 0; i < n; i += 7) {
    const auto u = static_cast<std::size_t>(i);
    const double d = 0.5 * g[u] + 0.01 * w[u], buffer = 0.9 * m[u] + 0.8 * d;
    close(1, i, buffer);
    close(0, i, w[u] - 0.1 * buffer);
    const double e = 2.0 * g[u] + 0.1 * w[u], first = 0.9 * m[u] + 0.1 * e, second = 0.99 * v[u] + 0.01 * e * e;
    close(3, i, first);
    close(4, i, second);
    close(2, i, w[u] - 0.01 * first / (std::sqrt(second) / 0.3 + 1e-8));
  }
}

TEST(Optimizers, AFrozenSecondMomentHasALeastValueAndMayBeFrozenTwice) {
  Two m;
  const auto adam = make_optimizer(m.arena, {.name = "adam"});
  StateDict state;
  adam->save(state);
  const Tensor v = state.at("second_moment");
  std::vector<float> values(static_cast<std::size_t>(v.elements()), 1e-9f);
  const auto first = static_cast<std::size_t>(m.a->info.offset);
  values[first] = 4, values[first + 1] = 0, values[first + 2] = 1;
  v.copy_from(Tensor::of(v.shape(), values));
  for (int times = 0; times < 2; ++times) {
    adam->freeze_second_moment();
    const std::vector<float> frozen = v.to_vector();
    EXPECT_EQ(frozen[first], 4);
    EXPECT_TRUE(std::isinf(frozen[first + 1])) << "no gradient has ever come";
    EXPECT_EQ(frozen[first + 2], 1);
    for (std::int64_t i = 3; i < m.a->info.elements; ++i)
      EXPECT_FLOAT_EQ(frozen[first + static_cast<std::size_t>(i)], 4e-4f) << i;
    EXPECT_EQ(frozen[static_cast<std::size_t>(m.b->info.offset)], 1e-9f) << "goes by its own parameter";
  }
  EXPECT_THROW(make_optimizer(m.arena, {})->freeze_second_moment(), Error);
}

TEST(Optimizers, RefuseWhatMakesNoSense) {
  Two m, other;
  EXPECT_THAT(error_of<UsageError>([&] { make_optimizer(m.arena, {.name = "adamv"}); }),
              HasSubstr("did you mean adam"));
  EXPECT_THROW(make_optimizer(m.arena, {.name = "adam", .momentum = 0.9}), UsageError);
  EXPECT_THROW(make_optimizer(m.arena, {.momentum = 1.0}), UsageError);
  EXPECT_THROW(make_optimizer(m.arena, {.nesterov = true}), UsageError);
  EXPECT_THROW(make_optimizer(m.arena, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), UsageError);
  EXPECT_THROW(make_optimizer(m.arena, {.decay = {.weight_decay = -1}}), UsageError);
  EXPECT_THROW(make_optimizer(m.arena, {.decay = {.weight_decay = kNan}}), UsageError);
  EXPECT_THROW(make_optimizer(m.arena, {.name = "adam", .beta2 = 1}), UsageError);
  const auto sgd = make_optimizer(m.arena, {});
  EXPECT_THROW(sgd->update(*other.a, 0.1), Error);
  EXPECT_THAT(error_of<Error>([] {
                const ParameterArena a({std::make_shared<Parameter>(Shape{5, 0}, Role::linear)});
              }),
              HasSubstr("[5, 0]"));
}

TEST(Clip, ParsesItsTwoForms) {
  EXPECT_EQ(Clip::parse("none").kind, Clip::Kind::none);
  EXPECT_EQ(Clip::parse("norm:0.25").limit, 0.25);
  EXPECT_EQ(Clip::parse("value:1e-3").kind, Clip::Kind::value);
  for (const char* bad : {"", "nrom:1", "norm", "norm:", "norm:0", "norm:-1", "norm:nan", "norm:inf", "value:1x", "5"})
    EXPECT_THROW(Clip::parse(bad), UsageError) << bad;
}

TEST(Clip, ScalesDownToTheLimitAndNeverUp) {
  EXPECT_EQ(clip_scale(4.0, 3.0), 1.0);
  EXPECT_NEAR(clip_scale(100.0, 3.0), 0.3, 1e-6);
  EXPECT_EQ(clip_scale(0.0, 3.0), 1.0);
  EXPECT_TRUE(std::isnan(clip_scale(std::nan(""), 3.0)));
}

TEST(Clip, NormIsTheSameBitsOnAnyNumberOfThreads) {
  const auto p = std::make_shared<Parameter>(Shape{300000}, Role::linear);
  ParameterArena arena({p});
  Random random(1, Purpose::test);
  std::vector<float> g(300000);
  double expected = 0;
  for (float& v : g) v = random.normal(), expected += static_cast<double>(v) * v;
  p->grad().copy_from(Tensor::of({300000}, g));
  set_kernel_threads(1);
  const double one = gradient_sum_of_squares(arena);
  set_kernel_threads(3);
  EXPECT_EQ(gradient_sum_of_squares(arena), one);
  set_kernel_threads(1);
  EXPECT_NEAR(one, expected, 1e-9 * expected);
}

TEST(Clip, ValueKeepsNaN) {
  const Tensor x = Tensor::of({5}, {-3, -0.5f, 0.5f, 3, kNan});
  clip_value(x, 1);
  const auto y = x.to_vector();
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 4), (std::vector<float>{-1, -0.5f, 0.5f, 1}));
  EXPECT_TRUE(std::isnan(y[4]));
}

/// Tells which runs of elements it was asked to update.
struct Recorder : Optimizer {
  explicit Recorder(const ParameterArena& arena)
      : Optimizer(arena, {.name = "recorder", .decay = {.weight_decay = 1, .norm_and_bias = false}}) {}
  void apply(const Part& part, double, double, std::int64_t t) override {
    runs.push_back({part.offset, part.value.elements(), static_cast<std::int64_t>(part.weight_decay), t});
  }
  std::vector<StateDict::Entry> arenas() const override { return {}; }
  std::vector<std::array<std::int64_t, 4>> runs;  // offset, elements, decay, number of the update
};

/// Parameters as they lie in an arena: two weights, a bias of as many elements as lines have, a weight with padding
/// behind it, another.
struct Five {
  Five()
      : arena({make({3, 16}, Role::linear), make({5}, Role::conv), make({16}, Role::bias), make({2, 32}, Role::conv),
               make({32}, Role::linear)}) {}
  static std::shared_ptr<Parameter> make(const Shape& shape, Role role) {
    return std::make_shared<Parameter>(shape, role);
  }
  Parameter& at(std::size_t i) const { return *arena.parameters()[i]; }
  ParameterArena arena;
};

TEST(Optimizer, UpdatesNeighboursAtOnceWhereNothingTellsThemApart) {
  using Runs = std::vector<std::array<std::int64_t, 4>>;
  const Five five;
  Recorder recorder(five.arena);
  recorder.update_all(0.1);
  EXPECT_EQ(recorder.runs, (Runs{{0, 96, 1, 1}, {96, 16, 0, 1}, {112, 5, 1, 1}, {128, 48, 1, 1}}))
      << "a bias is not decayed, and padding is left out";
  recorder.runs.clear();
  recorder.update(five.at(0), 0.1);
  recorder.update_all(0.1);
  EXPECT_EQ(recorder.runs,
            (Runs{{0, 32, 1, 2}, {0, 32, 1, 3}, {32, 64, 1, 2}, {96, 16, 0, 2}, {112, 5, 1, 2}, {128, 48, 1, 2}}))
      << "the first has had one more";
  recorder.runs.clear();
  // Rows in any order; one of them is missing, and comes on its own.
  recorder.update({{&five.at(4), {2, 1}}, {&five.at(1), {0, 2}}, {&five.at(4), {0, 1}}}, 0.1, 1);
  EXPECT_EQ(recorder.runs, (Runs{{32, 64, 1, 3}, {128, 16, 1, 3}, {160, 16, 1, 3}}));
  recorder.runs.clear();
  recorder.update(five.at(4), {1, 1}, 0.1);
  EXPECT_EQ(recorder.runs, (Runs{{144, 16, 1, 3}}));
  Five other;
  EXPECT_THROW(recorder.update({{&other.at(0), {0, 32}}}, 0.1), Error);
}

TEST(Optimizers, UpdateAllAtOnceWithTheBitsOfOneAfterAnother) {
  for (const Device device : with_cuda({kCpu}))
    for (const Case& c : cases()) {
      Five at_once, one_by_one;
      const auto a = make_optimizer(at_once.arena, c.options), b = make_optimizer(one_by_one.arena, c.options);
      for (int k = 1; k <= 3; ++k) {
        for (const Five* five : {&at_once, &one_by_one})
          for (const auto& p : five->arena.parameters())
            Two::fill(p->grad(), 31 * k + 7 * p->info.index, [](int i) { return std::sin(0.7 * i); });
        const std::uint64_t version = at_once.at(2).value().version();
        a->update_all(0.1, 0.5);
        EXPECT_GT(at_once.at(2).value().version(), version);
        for (const auto& p : one_by_one.arena.parameters()) b->update(*p, 0.1, 0.5);
        EXPECT_EQ(at_once.arena.values().to_vector(), one_by_one.arena.values().to_vector()) << c.name << device;
      }
    }
}

TEST(Optimizer, AnUpdateInPartsOfRowsIsOneUpdateBitForBit) {
  for (const OptimizerOptions& options :
       {OptimizerOptions{}, OptimizerOptions{.momentum = 0.9, .dampening = 0.3}, OptimizerOptions{.name = "adam"},
        OptimizerOptions{.name = "adamw", .decay = {.weight_decay = 0.05}}}) {
    const auto run = [&](bool parts) {
      const auto w = std::make_shared<Parameter>(Shape{5, 3}, Role::linear);
      Two::fill(w->value(), 0, [](int i) { return std::cos(0.5 * i); });
      ParameterArena arena({w});
      const auto optimizer = make_optimizer(arena, options);
      for (int k = 0; k < 3; ++k) {
        Two::fill(w->grad(), 0, [k](int i) { return std::sin(0.7 * i + 1.3 * k); });
        if (parts)
          for (const Rows rows : {Rows{3, 2}, Rows{0, 1}, Rows{1, 2}}) optimizer->update(*w, rows, 0.1, 0.25);
        else
          optimizer->update(*w, 0.1, 0.25);
      }
      StateDict state;
      optimizer->save(state);
      EXPECT_EQ(state.at("updates").data<std::int64_t>()[0], 3);
      return w->value().to_vector();
    };
    EXPECT_EQ(run(true), run(false)) << options.name;
  }
}

TEST(Optimizer, RowsThatComeTwiceAndStatesInTheMiddleOfAnUpdateAreRefused) {
  const auto w = std::make_shared<Parameter>(Shape{5, 3}, Role::linear);
  ParameterArena arena({w});
  raw::fill(w->grad(), 1);
  const auto optimizer = make_optimizer(arena, {});
  optimizer->update(*w, Rows{0, 3}, 0.1);
  StateDict state;
  EXPECT_THROW(optimizer->save(state), Error);
  EXPECT_THROW(optimizer->update(*w, Rows{0, 3}, 0.1), Error);
}

}  // namespace
}  // namespace laconic
