// The training loop: what N workers compute together, accumulation, clipping, losses that are no numbers, failures.
#include "dist/trainer/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "core/function.h"
#include "core/raw.h"
#include "data/image_dataset.h"
#include "data/synthetic.h"
#include "dist/engine/busy.h"
#include "dist/method/allreduce_sync.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

constexpr const char *kRing = "ring", *kButterfly = "butterfly";

void expect_same_bits_everywhere(const Outcome& outcome) {
  for (std::size_t r = 1; r < outcome.parameters.size(); ++r)
    EXPECT_TRUE(same_bits(outcome.parameters[r], outcome.parameters[0])) << "rank " << r;
}

void expect_nearly(const Outcome& a, const Outcome& b, double tolerance) {
  EXPECT_LT(relative_difference(a.parameters[0], b.parameters[0]), tolerance);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, 1e-4 * a.steps[i].loss) << i;
  ASSERT_EQ(a.evals.size(), b.evals.size());
  for (std::size_t i = 0; i < a.evals.size(); ++i)
    EXPECT_NEAR(a.evals[i].loss, b.evals[i].loss, 1e-4 * a.evals[i].loss) << i;
}

// A global batch of 60 out of 150 samples: the last one of an epoch has 30, so that with 5 workers two are empty.
TEST(Trainer, NWorkersComputeWhatOneComputesWithTheGlobalBatch) {
  for (const auto& model : {perceptron, convolutional})
    for (bool dropout : {true, false}) {
      Recipe recipe(model);
      recipe.task.batch = 60;
      recipe.task.augment = kPadCropFlip;
      recipe.trainer.dropout = dropout;
      recipe.trainer.optimizer.momentum = 0.9;
      const Outcome alone = train(recipe);
      ASSERT_EQ(alone.steps.size(), 6u);
      for (int N : {2, 3, 4, 5})
        for (auto algorithm : {kRing, kButterfly}) {
          SCOPED_TRACE(concat(N, " workers, ", algorithm, dropout ? ", dropout" : ""));
          recipe.workers = N;
          recipe.task.batch = 60 / N;
          recipe.trainer.plan.allreduce = algorithm;
          const Outcome together = train(recipe);
          expect_same_bits_everywhere(together);
          expect_nearly(alone, together, 1e-5);
        }
    }
}

/// Rank 0 has all samples of the step, and its gradient is weighted for a mean over ranks. A step of its own goes by
/// its own mean, as it does where nothing is joined; the joint model is where it went, for three others have learned
/// nothing.
TEST(Trainer, AWorkersOwnStepGoesByItsOwnMeanInAShortBatch) {
  Recipe recipe(perceptron, 4);
  recipe.data = tiny_images(4, 4);
  recipe.task.batch = 4;
  recipe.trainer.epochs = 1;
  recipe.trainer.audit_every = 0;
  const auto after_one_step = [&](const char* sync, decltype(recipe.settings) settings, int servers = 0) {
    recipe.sync = sync, recipe.settings = std::move(settings), recipe.servers = servers;
    return train(recipe).parameters[0];
  };
  recipe.trainer.joint_at_end = true;
  const std::vector<float> alone = after_one_step("none", {});
  const std::vector<std::vector<float>> joint{
      after_one_step("rounds", {{"every", "9"}}),
      after_one_step("rounds", {{"every", "9"}, {"outer", "momentum"}, {"pairs", ""}}),
      after_one_step("slimdp", {{"alpha", "1"}, {"explore", "0"}}, 1)};
  recipe.trainer.lr = 0;
  EXPECT_GT(relative_difference(alone, after_one_step("none", {})), 1e-3);
  for (const std::vector<float>& model : joint) EXPECT_LT(relative_difference(model, alone), 1e-6);
}

/// Changes are weighed by samples, as gradients are: with plain SGD a round of one step is a dense step. Here five of
/// eight workers have samples, four of them four, and one three.
TEST(Trainer, RoundsOfOneStepAreDenseStepsWhereWorkersHaveNoSamples) {
  Recipe recipe(perceptron, 8);
  recipe.data = tiny_images(19, 4);
  recipe.task.batch = 4;
  recipe.trainer.epochs = 3;
  recipe.trainer.audit_every = 0;
  recipe.trainer.joint_at_end = true;
  const auto after = [&](std::int64_t epochs, const char* sync, decltype(recipe.settings) settings, int servers = 0) {
    recipe.trainer.epochs = epochs, recipe.sync = sync, recipe.settings = std::move(settings), recipe.servers = servers;
    return train(recipe).parameters[0];
  };
  const std::vector<float> dense = after(3, "allreduce", {}), dense_once = after(1, "allreduce", {});
  EXPECT_GT(relative_difference(dense, dense_once), 1e-3);
  EXPECT_LT(relative_difference(after(3, "rounds", {{"every", "1"}}), dense), 1e-5);
  EXPECT_LT(relative_difference(after(3, "rounds", {{"every", "1"}, {"density", "1"}, {"value-bits", "32"}}), dense),
            1e-5);
  EXPECT_LT(relative_difference(after(3, "slimdp", {{"alpha", "1"}, {"explore", "0"}}, 1), dense), 1e-5);
  // Two who meet weigh each other; those who have learned are weighed alike afterwards.
  const std::vector<float> pairs = after(1, "rounds", {{"every", "1"}, {"outer", "sgd"}, {"pairs", ""}, {"pull", "0"}});
  EXPECT_LT(relative_difference(pairs, dense_once), 1e-5);
}

/// Also where the last exchange lies some steps back.
TEST(Trainer, LeavesTheJointModelOnEveryWorker) {
  for (const auto& [sync, settings, servers] :
       std::vector<std::tuple<const char*, std::vector<std::pair<std::string, std::string>>, int>>{
           {"rounds", {{"every", "4"}}, 0}, {"slimdp", {}, 1}, {"allreduce", {}, 0}}) {
    const TempFolder folder;
    Recipe recipe(normalized, 2);
    recipe.trainer.epochs = 0, recipe.trainer.steps = 7;
    recipe.trainer.save = folder / "saved", recipe.trainer.joint_at_end = true;
    recipe.sync = sync, recipe.settings = settings, recipe.servers = servers;
    const Outcome outcome = train(recipe);
    expect_same_bits_everywhere(outcome);
    EXPECT_EQ(outcome.buffers[0], outcome.buffers[1]) << sync;
    const StateDict saved = load_safetensors(folder / "saved/weights.safetensors");
    std::vector<float> of_file, here = outcome.parameters[0];
    for (const auto& [name, tensor] : saved) {
      const std::vector<float> values = tensor.to_vector();
      if (const auto buffer = outcome.buffers[0].find(name); buffer != outcome.buffers[0].end())
        EXPECT_TRUE(same_bits(values, buffer->second)) << sync << " " << name;
      else
        of_file.insert(of_file.end(), values.begin(), values.end());
    }
    std::ranges::sort(of_file), std::ranges::sort(here);  // the arena has another order
    EXPECT_TRUE(same_bits(of_file, here)) << sync;
  }
}

TEST(Trainer, DropoutIsNotTheSameWithoutIt) {  // or the test above would prove nothing about masks
  Recipe recipe;
  const Outcome with = train(recipe);
  recipe.trainer.dropout = false;
  EXPECT_GT(relative_difference(with.parameters[0], train(recipe).parameters[0]), 1e-3);
}

TEST(Trainer, TellsTheMemoryOfActivationsWithoutAnEvaluation) {
  Recipe recipe(convolutional, 2);
  recipe.trainer.eval_every = 0;
  const RunSummary summary = train(recipe).summary;
  if (summary.memory_bytes_peak) {  // a sanitizer's allocator tells neither
    EXPECT_GT(*summary.activation_bytes_peak, 0);
  }
}

TEST(Trainer, FourTimesSixteenLenetIsOnceSixtyFour) {
  Recipe recipe([] { return make_model("lenet"); });
  recipe.data = std::make_shared<const ImageDataset>(load_mnist("synthetic:150,20"));
  recipe.task.batch = 64;
  recipe.trainer.epochs = 1;
  const Outcome alone = train(recipe);
  recipe.workers = 4;
  recipe.task.batch = 16;
  expect_nearly(alone, train(recipe), 1e-5);
}

TEST(Trainer, AllRanksHoldTheSameBitsWithBatchNorm) {
  for (int N : {3, 4}) {
    Recipe recipe(normalized, N);
    recipe.task.augment = kPadCropFlip;
    expect_same_bits_everywhere(train(recipe));  // audited after every step, too
  }
  Recipe recipe([] { return make_model("resnet20"); }, 2);
  recipe.data = std::make_shared<const ImageDataset>(synthetic_cifar10({.train = 20, .test = 4}));
  recipe.task.batch = 4;
  recipe.trainer.epochs = 1;
  expect_same_bits_everywhere(train(recipe));
}

std::vector<float> buffer_in(const std::string& file, const std::string& name) {
  return load_safetensors(file).at(name).to_vector();
}

/// Running statistics of the workers in what is saved: weighed by samples.
TEST(Trainer, RunningStatisticsAreWeighedBySamples) {
  const std::string buffer = "bn.running_var";
  const std::vector<std::tuple<const char*, std::vector<std::pair<std::string, std::string>>, int>> methods{
      {"allreduce", {}, 0},
      {"redsync", {{"density", "0.1"}}, 0},
      {"rounds", {{"every", "2"}}, 0},
      {"ps", {}, 1},
      {"slimdp", {}, 1}};
  for (const auto& [sync, settings, servers] : methods)
    for (const std::int64_t images : {36, 64}) {  // in a step 8, 8, 8, 8 and then 4, 0, 0, 0 or as many for all
      const TempFolder folder;
      Recipe recipe(normalized, 4);
      recipe.data = tiny_images(images, 6);
      recipe.task.batch = 8;
      recipe.trainer.epochs = 3;
      recipe.trainer.save = folder.path();
      recipe.sync = sync, recipe.settings = settings, recipe.servers = servers;
      const Outcome outcome = train(recipe);
      const std::vector<double> samples =
          images == 36 ? std::vector<double>{12, 8, 8, 8} : std::vector<double>{8, 8, 8, 8};
      const std::vector<float> saved = buffer_in(folder / "weights.safetensors", buffer);
      for (std::size_t i = 0; i < saved.size(); ++i) {
        double sum = 0, plain = 0, all = 0;
        for (std::size_t r = 0; r < 4; ++r) {
          const double own = outcome.buffers[r].at(buffer)[i];
          sum += samples[r] * own, plain += own, all += samples[r];
        }
        EXPECT_NEAR(saved[i], sum / all, 1e-6) << sync;
        if (images == 64) {
          EXPECT_EQ(saved[i], static_cast<float>(plain / 4)) << sync;
        }
      }
    }
}

/// Who has no sample still has what all began with.
TEST(Trainer, WorkersWithoutSamplesLeaveEvaluationsAsTheyAre) {
  const auto trained = [](int workers) {
    Recipe recipe(normalized, workers);
    recipe.data = tiny_images(24, 30);
    recipe.task.batch = 8;
    recipe.task.shuffle = false;
    recipe.trainer.epochs = 6;
    recipe.trainer.joint_at_end = true;
    return train(recipe);
  };
  const Outcome three = trained(3), five = trained(5);
  ASSERT_EQ(three.evals.size(), five.evals.size());
  for (std::size_t i = 0; i < three.evals.size(); ++i) {
    EXPECT_NEAR(three.evals[i].loss, five.evals[i].loss, 1e-5);
    EXPECT_EQ(three.evals[i].top1_error, five.evals[i].top1_error);
  }
  EXPECT_LT(three.evals.back().top1_error, 60);
  for (const auto& [name, values] : three.buffers[0])
    EXPECT_LT(relative_difference(values, five.buffers[0].at(name)), 1e-5) << name;
}

TEST(Trainer, TheAuditFindsARankThatDiffers) {
  struct Tampering final : Passing {
    using Passing::Passing;
    Share load() override {
      if (++loads == 3) model().parameters()[0]->value().data<float>()[0] += 1;
      return Passing::load();
    }
    int loads = 0;
  };
  Recipe recipe(perceptron, 3);
  recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    if (worker.rank != 2) return task;
    return std::make_unique<Tampering>(std::move(task));
  };
  const std::string error = error_of<CommError>([&] { train(recipe); });
  EXPECT_NE(error.find("rank 2"), std::string::npos) << error;
  EXPECT_NE(error.find("parameters after step 3"), std::string::npos) << error;
}

TEST(Trainer, TheSameRunGivesTheSameBits) {
  Recipe recipe(normalized, 3);
  EXPECT_TRUE(same_bits(train(recipe).parameters[0], train(recipe).parameters[0]));
  const auto seeded = train(recipe).parameters[0];
  recipe.trainer.seed = 4;
  EXPECT_FALSE(same_bits(train(recipe).parameters[0], seeded));
}

TEST(Trainer, KMicroBatchesAreOneBatchOfKTimesAsMany) {
  for (int N : {1, 3}) {
    Recipe recipe(convolutional, N);
    recipe.task.batch = 24;
    recipe.trainer.optimizer.momentum = 0.9;
    const Outcome whole = train(recipe);
    recipe.task.batch = 8;
    recipe.trainer.accumulate = 3;
    SCOPED_TRACE(N);
    expect_nearly(whole, train(recipe), 1e-5);
  }
}

TEST(Trainer, ReduceSumIsNTimesTheMean) {
  Recipe recipe(perceptron, 3);
  recipe.trainer.steps = 0;
  const auto before = train(recipe).parameters[0];
  recipe.trainer.steps = 1;
  const auto mean = train(recipe).parameters[0];
  recipe.trainer.mean = false;
  const auto sum = train(recipe).parameters[0];
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i] - before[i], 3 * (mean[i] - before[i]), 1e-6);
}

/// The gradient of the first step, from plain SGD's first update with lr = 1.
struct FirstStep {
  std::vector<float> before, update;  // before - after
};
FirstStep first_step(Recipe recipe) {
  recipe.trainer.lr = 1;
  recipe.trainer.steps = 0;
  FirstStep s{train(recipe).parameters[0], {}};
  recipe.trainer.steps = 1;
  const auto after = train(recipe).parameters[0];
  for (std::size_t i = 0; i < after.size(); ++i) s.update.push_back(s.before[i] - after[i]);
  return s;
}

TEST(Trainer, ClipValueBoundsEachElementOfTheGlobalGradient) {
  for (int N : {1, 3}) {
    Recipe recipe(perceptron, N);
    const FirstStep free = first_step(recipe);
    recipe.trainer.clip = Clip::parse("value:0.01");
    const FirstStep clipped = first_step(recipe);
    int bounded = 0;
    for (std::size_t i = 0; i < free.update.size(); ++i) {
      EXPECT_NEAR(clipped.update[i], std::min(0.01f, std::max(-0.01f, free.update[i])), 1e-6);
      bounded += std::abs(free.update[i]) > 0.01f;
    }
    EXPECT_GT(bounded, 10);
  }
}

TEST(Trainer, ClipNormBoundsTheLengthOfTheGlobalGradient) {
  for (int N : {1, 3})
    for (const char* limit : {"norm:0.1", "norm:100"}) {
      Recipe recipe(perceptron, N);
      const FirstStep free = first_step(recipe);
      double squares = 0;
      for (float g : free.update) squares += double{g} * g;
      ASSERT_GT(std::sqrt(squares), 0.2);
      recipe.trainer.clip = Clip::parse(limit);
      const double scale = std::min(1.0, recipe.trainer.clip.limit / (std::sqrt(squares) + 1e-6));
      const FirstStep clipped = first_step(recipe);
      for (std::size_t i = 0; i < free.update.size(); ++i) EXPECT_NEAR(clipped.update[i], scale * free.update[i], 1e-6);
    }
}

/// A loss that is not a number, on one rank, in one step.
struct PoisonAt final : Passing {
  PoisonAt(std::unique_ptr<Workload> inner, int at) : Passing(std::move(inner)), at_(at) {}
  Share load() override {
    ++loads_;
    return Passing::load();
  }
  Tensor loss() override {
    Tensor loss = Passing::loss();
    if (loads_ == at_) raw::fill(loss.value(), std::numeric_limits<float>::quiet_NaN());
    return loss;
  }

 private:
  const int at_;
  int loads_ = 0;
};

auto poison(int at_rank, int at_load) {
  return [=](std::unique_ptr<Workload> task, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    if (worker.rank != at_rank) return task;
    return std::make_unique<PoisonAt>(std::move(task), at_load);
  };
}

TEST(Trainer, OnNanSkipLeavesAllAsItWasOnEveryRank) {
  for (int N : {1, 3})
    for (const char* clip : {"none", "norm:0.5"}) {
      SCOPED_TRACE(concat(N, " workers, clip ", clip));
      Recipe recipe(normalized, N);
      recipe.data = tiny_images(400, 20);
      recipe.trainer.skip_nan = true;
      recipe.trainer.optimizer.momentum = 0.9;
      recipe.trainer.clip = Clip::parse(clip);
      recipe.trainer.accumulate = 2;
      recipe.trainer.steps = 3;
      const Outcome three = train(recipe);
      recipe.wrap = poison(N - 1, 8);  // the second micro-batch of the fourth step
      recipe.trainer.steps = 4;
      const Outcome skipped = train(recipe);
      for (std::size_t r = 0; r < skipped.parameters.size(); ++r) {
        EXPECT_TRUE(same_bits(skipped.parameters[r], three.parameters[r])) << r;
        EXPECT_EQ(skipped.buffers[r], three.buffers[r]) << r;
      }
      ASSERT_EQ(skipped.steps.size(), 4u);
      EXPECT_TRUE(std::isnan(skipped.steps[3].loss)) << skipped.steps[3].loss;
      EXPECT_EQ(skipped.steps[2].loss, three.steps[2].loss);
      // And it goes on.
      recipe.trainer.steps = 6;
      const Outcome on = train(recipe);
      ASSERT_EQ(on.steps.size(), 6u);
      EXPECT_TRUE(std::isfinite(on.steps[5].loss));
      EXPECT_FALSE(same_bits(on.parameters[0], skipped.parameters[0]));
      expect_same_bits_everywhere(on);
    }
}

/// In the last batch of an epoch two of four workers have no sample, and make no forward.
TEST(Trainer, OnNanSkipWaitsForNobodyWithoutSamples) {
  for (const std::string& name : dist::methods().names()) {
    const std::unique_ptr<dist::Method> method = dist::methods().make(name);
    if (method->traits().servers || !method->traits().joins) continue;
    Recipe recipe(mixed, 4);
    recipe.sync = name, recipe.trainer.skip_nan = true, recipe.trainer.lr = 0.001, recipe.trainer.audit_every = 0;
    recipe.trainer.epochs = 1;
    recipe.trainer.optimizer.name = *method->traits().optimizer ? method->traits().optimizer : "sgd";
    if (name == "strom") recipe.settings = {{"threshold", "0.01"}};
    if (name == "powersgd") recipe.settings = {{"rank", "1"}};
    EXPECT_EQ(train(recipe).steps.size(), 3u) << name;
  }
}

/// Methods that count updates count none that were not made: a training whose first steps are passed over is one that
/// begins with the images after them.
TEST(Trainer, StepsThatArePassedOverAreNotCountedAsUpdates) {
  struct BeginsLater final : Passing {
    BeginsLater(std::unique_ptr<Workload> inner, int left_out) : Passing(std::move(inner)), left_out_(left_out) {}
    Share load() override {
      for (; left_out_ > 0; --left_out_) Passing::load();
      return Passing::load();
    }
    int left_out_;
  };
  struct Poisoned final : Passing {
    Poisoned(std::unique_ptr<Workload> inner, int count) : Passing(std::move(inner)), left_(count) {}
    Tensor loss() override {
      Tensor loss = Passing::loss();
      if (left_-- > 0) raw::fill(loss.value(), std::numeric_limits<float>::quiet_NaN());
      return loss;
    }
    int left_;
  };
  struct Case {
    std::string sync, optimizer;
    std::vector<std::pair<std::string, std::string>> settings;
  };
  const Case cases[] = {
      {"allreduce", "adam", {}},
      {"onebit-adam", "adam", {{"onebit-warmup", "2"}, {"onebit-refresh", "1"}}},
      {"ef21", "sgd", {{"density", "0.1"}}},
  };
  const auto without_dropout = [] {
    return sequential({{"flatten", make<Flatten>()}, {"fc", make<Linear>({.in = 192, .out = 7})}});
  };
  for (const auto& [sync, optimizer, settings] : cases) {
    SCOPED_TRACE(sync);
    static constexpr int kPassedOver = 3, kUpdates = 6;
    Recipe recipe(without_dropout, 2);  // dropout's masks are drawn by the step
    recipe.data = tiny_images(400, 20);
    recipe.sync = sync, recipe.settings = settings;
    recipe.trainer.optimizer.name = optimizer;
    recipe.trainer.skip_nan = true;
    recipe.trainer.lr = 0.01;
    recipe.trainer.steps = kUpdates;
    recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker&) -> std::unique_ptr<Workload> {
      return std::make_unique<BeginsLater>(std::move(task), kPassedOver);
    };
    const Outcome expected = train(recipe);
    recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker&) -> std::unique_ptr<Workload> {
      return std::make_unique<Poisoned>(std::move(task), kPassedOver);
    };
    recipe.trainer.steps = kPassedOver + kUpdates;
    EXPECT_TRUE(same_bits(train(recipe).parameters[0], expected.parameters[0]));

    const TempFolder folder;  // and the count is in the checkpoint
    recipe.trainer.save = folder.path();
    recipe.trainer.steps = kPassedOver + 1;
    train(recipe);
    recipe.wrap = nullptr;
    recipe.trainer.resume = folder.path();
    recipe.trainer.steps = kPassedOver + kUpdates;
    EXPECT_TRUE(same_bits(train(recipe).parameters[0], expected.parameters[0]));
  }
}

/// Hands its input on, in step `at` (of updates made) with a value that is not finite.
class Spoil final : public Module {
 public:
  struct Options {
    std::int64_t at = 0;
  };
  explicit Spoil(Options o) : o_(o) {}

 protected:
  Tensor forward(const Tensor& x) override {
    if (context().step == o_.at) raw::fill(x.value(), std::numeric_limits<float>::infinity());
    return x;
  }

 private:
  Options o_;
};

TEST(Trainer, ALossThatIsNoNumberNamesStepAndLayer) {
  for (const Device device : with_cuda())
    for (int N : {1, 3}) {
      Recipe recipe(perceptron, N);
      recipe.trainer.device = device;
      recipe.model = [] {
        return sequential({{"flatten", make<Flatten>()},
                           {"fc1", make<Linear>({.in = 192, .out = 24})},
                           {"tanh", make<Tanh>()},
                           {"spoil", make<Spoil>({.at = 3})},
                           {"fc2", make<Linear>({.in = 24, .out = 7})}});
      };
      const std::string error = error_of<Error>([&] { train(recipe); });
      EXPECT_NE(error.find("step 4"), std::string::npos) << error;
      EXPECT_NE(error.find("layer spoil."), std::string::npos) << error;
    }
}

TEST(Trainer, ParametersThatAreNoNumbersAreNamed) {
  for (int N : {1, 2}) {
    Recipe recipe(convolutional, N);
    recipe.trainer.lr = std::numeric_limits<float>::infinity();
    const std::string error = error_of<Error>([&] { train(recipe); });
    EXPECT_NE(error.find("step 2"), std::string::npos) << error;
    EXPECT_NE(error.find("conv.weight"), std::string::npos) << error;
  }
}

/// Hands its input on; in backward its gradient is infinite.
struct Explode {
  Tensor forward(const Tensor& x) { return x; }
  Tensor backward(const Tensor& dy) { return Tensor::full(dy.shape(), std::numeric_limits<float>::infinity()); }
};

/// Makes the sum of one step's gradients infinite.
class Overflowing final : public dist::Method {
 public:
  std::string name() const override { return "overflowing"; }
  std::string summary() const override { return "for tests"; }
  std::unique_ptr<dist::Strategy> worker(dist::WorkerSide side) const override {
    const auto update = [made = std::move(side.update)](Parameter& p, Rows rows, const dist::StepContext& context) {
      if (context.step == 3) raw::fill(p.grad(), std::numeric_limits<float>::infinity());
      made(p, rows, context);
    };
    return std::make_unique<dist::AllreduceSync>(side.arena, side.engine, side.plan, update, side.facts);
  }
};

TEST(Trainer, AnExchangeThatOverflowsIsToldFromGradientsThatDo) {
  static const bool added = (dist::methods().add("overflowing", [] { return std::make_unique<Overflowing>(); }), true);
  ASSERT_TRUE(added);
  Recipe recipe(convolutional, 2);
  recipe.sync = "overflowing";
  expect_error<Error>(
      [&] { train(recipe); },
      {"at step 4; the first parameter that is not finite is conv.weight. Its gradient was finite on rank ",
       ", and after the exchange of step 3 it was not: take `codec` bf16 or none, or another `sync`"});
  recipe.trainer.steps = 3;
  expect_error<Error>([&] { train(recipe); },
                      {"after step 3 the parameter ", "Its gradient was finite on rank ", "the exchange of step 3"});

  for (const char* sync : {"allreduce", "ps"}) {
    Recipe own(perceptron, 3);
    own.sync = sync;
    own.wrap = [](std::unique_ptr<Workload> task, const dist::Worker& worker) -> std::unique_ptr<Workload> {
      struct Exploding final : Passing {
        using Passing::Passing;
        Tensor loss() override {
          const Tensor value = Passing::loss();
          return ++steps == 2 ? recorded(Explode{}, value) : value;
        }
        int steps = 0;
      };
      return worker.rank == 2 ? std::make_unique<Exploding>(std::move(task)) : std::move(task);
    };
    expect_error<Error>([&] { train(own); }, {"training: the gradient of ",
                                              " is not finite on rank 2 in step 2, before any exchange. Lower"});
  }
}

// Layers have no values in it from which a threshold could be found.
TEST(Trainer, LayersAreDroppedAlsoIfTheFirstStepWasPassedOver) {
  Recipe recipe(convolutional, 2);
  recipe.sync = "layerdrop";
  recipe.settings = {{"drop-ratio", "0.9"}, {"threshold-every", "0"}};
  recipe.trainer.skip_nan = true;
  recipe.trainer.steps = 6;
  recipe.trainer.overlap = dist::Overlap::none;  // a step's bytes are sent in it
  recipe.wrap = poison(1, 1);
  const Outcome outcome = train(recipe);
  ASSERT_EQ(outcome.steps.size(), 6u);
  // The second step sends all: there is no threshold yet.
  EXPECT_LT(outcome.steps[4].bytes_sent_sum, 0.7 * static_cast<double>(outcome.steps[1].bytes_sent_sum));
}

TEST(Trainer, AnEvaluationThatIsNoNumberIsAnError) {
  struct Spoilt final : Passing {
    using Passing::Passing;
    EvalSums evaluate(const Stop&) override { return {.samples = 1, .loss = std::numeric_limits<double>::quiet_NaN()}; }
  };
  Recipe recipe(perceptron, 2);
  recipe.trainer.steps = 3;
  recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker&) -> std::unique_ptr<Workload> {
    return std::make_unique<Spoilt>(std::move(task));
  };
  EXPECT_EQ(
      error_of<Error>([&] { train(recipe); }),
      "evaluation: the loss is not a number after step 3. Lower `lr`, clip gradients (`clip` norm:5), or go on all "
      "the same (`on-nan` skip).");
  recipe.trainer.skip_nan = true;
  EXPECT_TRUE(std::isnan(train(recipe).evals.back().loss));
}

TEST(Trainer, WeightsThatAreNoNumbersReplaceNone) {
  const TempFolder folder;
  folder.write("weights.safetensors", {'g', 'o', 'o', 'd'});
  Recipe recipe(convolutional, 2);
  recipe.trainer.lr = std::numeric_limits<float>::infinity();
  recipe.trainer.skip_nan = true;
  recipe.trainer.save = folder.path();
  recipe.trainer.overwrite = true;
  recipe.trainer.steps = 1;
  expect_error<Error>([&] { train(recipe); }, {"after step 1 the parameter ", " is not finite"});
  EXPECT_EQ(std::filesystem::file_size(folder / "weights.safetensors"), 4u);
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoint-000000000001"));

  recipe.model = normalized;
  recipe.trainer.lr = 0.1;
  recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker&) -> std::unique_ptr<Workload> {
    struct Spoiling final : Passing {
      using Passing::Passing;
      EvalSums evaluate(const Stop& stop) override {
        for (const auto& [name, tensor] : model().named_buffers())
          if (tensor.dtype() == DType::f32) tensor.data<float>()[0] = std::numeric_limits<float>::infinity();
        return Passing::evaluate(stop);
      }
    };
    return std::make_unique<Spoiling>(std::move(task));
  };
  recipe.workers = 1;
  expect_error<Error>([&] { train(recipe); }, {"after step 1 the buffer ", " is not finite"});
}

TEST(Trainer, AWorkerThatThrowsEndsAllWithItsSentence) {
  struct Throwing final : Passing {
    using Passing::Passing;
    Tensor loss() override {
      require<DataError>(++calls < 4, "the disk of this worker caught fire.");
      return Passing::loss();
    }
    int calls = 0;
  };
  for (const char* sync : {"allreduce", "none"}) {
    dist::Watchdog watchdog(50);  // far below the time-out of a lost rank
    Recipe recipe(perceptron, 4);
    recipe.sync = sync;
    recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker& worker) -> std::unique_ptr<Workload> {
      if (worker.rank != 2) return task;
      return std::make_unique<Throwing>(std::move(task));
    };
    EXPECT_EQ(error_of<DataError>([&] { train(recipe); }), "the disk of this worker caught fire.");
  }
}

/// What others then wait for, and messages tell (dist/engine/busy.h).
TEST(Trainer, SaysWithWhatARankIsBusyOutsideOfTheExchange) {
  using Seen = std::set<std::string>;
  const auto look = [](Seen& seen, const std::string& where) {
    const auto now = dist::BusyThread::here()->now();
    seen.insert(where + (now ? " " + now->text.substr(0, now->text.find_last_of(",(")) : ""));
  };
  struct Looking final : Passing {
    Looking(std::unique_ptr<Workload> inner, std::function<void(const std::string&)> at)
        : Passing(std::move(inner)), look(std::move(at)) {}
    Share load() override { return look("load"), Passing::load(); }
    Tensor loss() override { return look("loss"), Passing::loss(); }
    EvalSums evaluate(const Stop& stop) override { return look("evaluate"), Passing::evaluate(stop); }
    std::function<void(const std::string&)> look;
  };
  struct Watching final : Observer {
    void on_start(const RunInfo&) override { look("start"); }
    void on_step(const StepReport&) override { look("step"); }
    void on_eval(const EvalReport&) override { look("eval"); }
    void on_end(const RunSummary&) override { look("end"); }
    std::function<void(const std::string&)> look;
  };
  Seen seen;
  Watching observer;
  observer.look = [&](const std::string& where) { look(seen, where); };
  const auto read = [&](const char* where) {
    return [&look, &seen, where](std::int64_t, std::int64_t, float* x) -> std::int64_t {
      look(seen, where);
      std::fill_n(x, 3 * 8 * 8, 0.0f);
      return 0;
    };
  };
  const SampleName name = [](std::int64_t i) { return concat("photo ", i); };
  const ImageSamples samples{.name = "photos",
                             .classes = 7,
                             .image = {3, 8, 8},
                             .train_size = 2,
                             .test_size = 1,
                             .train = read("read"),
                             .test = read("read a test image"),
                             .augment = "",
                             .train_name = name,
                             .test_name = name};
  dist::run_workers({}, [&](dist::Worker& worker) {
    Looking task(
        std::make_unique<ImageClassification>(
            perceptron(), samples, 0, 1, ImageClassification::Options{.batch = 1, .shuffle = false, .data_threads = 0}),
        observer.look);
    Trainer(worker, task, {.epochs = 1}, &observer).run();
  });
  EXPECT_EQ(seen, (Seen{"end writes its report ", "eval writes its report ", "evaluate evaluates ",
                        "load waits for its data ", "loss", "read a test image waits for its data (photo 0",
                        "read waits for its data (photo 0", "read waits for its data (photo 1",
                        "start writes its report ", "step writes its report "}));
}

TEST(Trainer, RanksWithOtherOptionsAreRefused) {
  Recipe recipe(perceptron, 3);
  recipe.per_rank = [](TrainerOptions& options, int rank) {
    if (rank == 1) options.lr = 0.2;
  };
  const std::string error = error_of<CommError>([&] { train(recipe); });
  EXPECT_NE(error.find("rank 1 has 'lr=0.2' where rank 0 has 'lr=0.1'"), std::string::npos) << error;
}

TEST(Trainer, RanksThatWereToldOtherwiseWhatThisRunDoesAreRefused) {
  using Change = std::function<void(TrainerOptions&)>;
  const TempFolder folder;
  Trace trace;
  for (const auto& [change, line] : {std::pair<Change, std::string>{[](auto& o) { o.steps = 7; }, "steps=7"},
                                     {[](auto& o) { o.epochs = 7; }, "epochs=7"},
                                     {[&](auto& o) { o.save = folder.path(); }, "save=given"},
                                     {[](auto& o) {
                                        o.save_every = {20, true};
                                      },
                                      "save-every=20it"},
                                     {[](auto& o) { o.audit_every = 7; }, "audit=7"},
                                     {[](auto& o) { o.eval_every = 7; }, "eval-every=7"},
                                     {[](auto& o) { o.ledger_every = 7; }, "ledger=7"},
                                     {[&](auto& o) { o.trace = &trace; }, "trace=given"},
                                     {[&](auto& o) { o.dump_gradients = folder.path(); }, "dump-gradients=given"},
                                     {[](auto& o) { o.told_alike = "\ndry-run=1"; }, "dry-run=1"}}) {
    dist::Watchdog watchdog(50);  // far below the time-out of a rank that waits in vain
    Recipe recipe(perceptron, 2);
    recipe.per_rank = [&change = change](TrainerOptions& options, int rank) {
      if (rank == 1) change(options);
    };
    expect_error<CommError>([&] { train(recipe); }, {"rank 1 has '" + line + "' where rank 0 has "});
  }
}

TEST(Trainer, AnEpochMayEndAfterAFewSteps) {
  Recipe recipe(perceptron, 2);
  recipe.task.batch = 25, recipe.task.shuffle = false;
  recipe.trainer.epochs = 3, recipe.trainer.epoch_steps = 2;
  recipe.trainer.lr = 1e-30, recipe.trainer.dropout = false;  // so that equal batches have equal losses
  recipe.trainer.schedule = Schedule::parse("step:1,0.5");
  const Outcome short_ones = train(recipe);
  ASSERT_EQ(short_ones.steps.size(), 6u);
  EXPECT_EQ(short_ones.evals.size(), 3u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(short_ones.steps[i].epoch, 1 + static_cast<std::int64_t>(i / 2));
    EXPECT_EQ(short_ones.steps[i].loss, short_ones.steps[i % 2].loss);
    EXPECT_DOUBLE_EQ(short_ones.steps[i].lr, short_ones.steps[0].lr * std::pow(0.5, i / 2));
  }
  EXPECT_NE(short_ones.steps[0].loss, short_ones.steps[1].loss);
  recipe.trainer.epoch_steps = 1000;  // more than there are
  EXPECT_EQ(train(recipe).steps.size(), 9u);
}

TEST(Trainer, EvaluatesAfterSoManyEpochsAndAtTheEnd) {
  Recipe recipe(perceptron, 2);
  recipe.trainer.epochs = 5;
  for (const auto& [every, epochs] :
       {std::pair<std::int64_t, std::vector<std::int64_t>>{1, {1, 2, 3, 4, 5}}, {2, {2, 4, 5}}, {9, {5}}, {0, {}}}) {
    recipe.trainer.eval_every = every;
    const Outcome outcome = train(recipe);
    std::vector<std::int64_t> found;
    for (const EvalReport& report : outcome.evals) found.push_back(report.epoch);
    EXPECT_EQ(found, epochs);
    EXPECT_EQ(outcome.summary.last_eval.has_value(), every > 0);
  }
  recipe.trainer.schedule = Schedule::parse("plateau:1,0.5");
  expect_error<UsageError>([&] { train(recipe); }, {"plateau:1,0.5", "every epoch", "`eval-every`"});
}

TEST(Trainer, WhatNeedsMoreMemoryThanThereIsIsRefused) {
  Recipe recipe(perceptron, 2);
  recipe.trainer.memory = 1000;
  expect_error<UsageError>([&] { train(recipe); },
                           {"2 workers need about 0.0 GiB, this machine has 0.0 free (`workers`): take fewer, or a "
                            "smaller `batch`"});
  recipe.trainer.memory = 0;
  recipe.trainer.steps = 1;
  const std::size_t elements = train(recipe).parameters[0].size();
  recipe.trainer.memory = 2 * 2 * elements * sizeof(float) + 1000;  // values and gradients, and no activations
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }), "");
  recipe.workers = 1;
  recipe.trainer.memory += static_cast<std::size_t>(3 * recipe.task.batch) *  // one in use, two ahead
                           (3 * 8 * 8 * sizeof(float) + sizeof(std::int64_t));
  EXPECT_EQ(error_of<UsageError>([&] { train(recipe); }), "");
}

TEST(Trainer, ToEstimateTheMemoryChangesNoBit) {
  Recipe recipe(mixed, 2);
  const Outcome without = train(recipe);
  recipe.trainer.memory = std::uint64_t{1} << 40;
  const Outcome with = train(recipe);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(same_bits(with.parameters[r], without.parameters[r])) << r;
    EXPECT_EQ(with.buffers[r], without.buffers[r]) << r;
  }
}

TEST(Trainer, AStopRequestOfOneRankEndsAllAfterTheSameStep) {
  Recipe recipe(perceptron, 3);
  recipe.trainer.epochs = 100;
  recipe.per_rank = [](TrainerOptions& options, int rank) {
    if (rank == 2) options.stop_requested = [calls = 0]() mutable { return ++calls >= 3; };
  };
  const Outcome outcome = train(recipe);
  EXPECT_LE(outcome.summary.steps, 5);
  EXPECT_EQ(outcome.summary.stopped, "interrupted");
  EXPECT_EQ(outcome.steps.size(), static_cast<std::size_t>(outcome.summary.steps));
  expect_same_bits_everywhere(outcome);
}

TEST(Trainer, AloneAStopRequestEndsAtOnceWithEveryStrategy) {
  for (const char* sync : {"allreduce", "none"}) {
    Recipe recipe;
    recipe.trainer.epochs = 100;
    recipe.sync = sync;
    recipe.trainer.stop_requested = [calls = 0]() mutable { return ++calls >= 3; };
    EXPECT_LE(train(recipe).summary.steps, 5) << sync;
  }
}

TEST(Trainer, WorkersThatJoinNothingHearOfAStopBetweenEvaluations) {
  const TempFolder folder;
  Recipe recipe(perceptron, 3);
  recipe.sync = "none", recipe.trainer.save = folder.path();
  recipe.trainer.epochs = 100000, recipe.trainer.eval_every = 0;
  recipe.per_rank = [](TrainerOptions& options, int rank) {
    if (rank == 2) options.stop_requested = [calls = 0]() mutable { return ++calls >= 4; };
  };
  const Outcome outcome = train(recipe);
  EXPECT_EQ(outcome.summary.stopped, "interrupted");
  EXPECT_LE(outcome.summary.steps, 7) << "after 1, 3 and 7 steps they meet, or more often";
  EXPECT_EQ(outcome.summary.bytes_sent_total, 0) << "their meetings are no part of a step";
  EXPECT_TRUE(std::filesystem::exists(folder / "weights.safetensors"));
}

/// None if there is no such file.
std::vector<float> floats_in(const std::string& path) {
  const std::string bytes = file_text(path);
  std::vector<float> values(bytes.size() / 4);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

TEST(Trainer, WritesItsOwnGradientsAtStepsOneTenAndSoOn) {
  for (const char* sync : {"allreduce", "redsync"}) {
    TempFolder folder;
    Recipe recipe(mixed, 2);
    dist::set_chunk(recipe.trainer.plan, "8KiB");
    recipe.sync = sync;
    if (recipe.sync == "redsync") recipe.settings = {{"dense-below", "1024"}};
    recipe.trainer.steps = 11;
    recipe.trainer.dump_gradients = folder / "deep/er";
    recipe.trainer.count_gradients = true;
    const FirstStep alone = [] {
      Recipe one(mixed);  // worker 0's share of the first global batch
      dist::set_chunk(one.trainer.plan, "8KiB");
      return first_step(one);
    }();
    const Outcome outcome = train(recipe);
    for (const StepReport& r : outcome.steps) {
      EXPECT_EQ(r.gradients.empty(), r.step != 1 && r.step != 10) << r.step;
      for (const GradientCounts& counted : r.gradients) {
        std::array<std::int64_t, 256> by_exponent{};
        for (const float value :
             floats_in(folder / concat("deep/er/step-0000", r.step == 1 ? "01/" : "10/", counted.parameter, ".f32"))) {
          int exponent = 0;
          std::frexp(value, &exponent);  // of a half up to 1
          ++by_exponent[value == 0 || exponent < -125 ? 0 : static_cast<std::size_t>(exponent + 126)];
        }
        EXPECT_EQ(counted.by_exponent, by_exponent) << counted.parameter;
      }
    }
    std::vector<float> dumped;
    dist::on_ranks(1, [&](dist::Worker& worker) {
      ImageClassification task(mixed(), recipe.data, 0, 1, recipe.task);
      const Trainer trainer(worker, task, Recipe(mixed).trainer);
      for (const auto& p : trainer.arena().parameters()) {
        const auto values = floats_in(folder / "deep/er/step-000001/" + p->info.name + ".f32");
        ASSERT_EQ(values.size(), static_cast<std::size_t>(p->info.elements)) << p->info.name;
        EXPECT_EQ(std::ranges::count(outcome.steps[0].gradients, p->info.name, &GradientCounts::parameter), 1);
        dumped.insert(dumped.end(), values.begin(), values.end());
        const bool residual = std::string(sync) == "redsync" && p->info.elements >= 256;
        for (const char* step : {"step-000001", "step-000010"})
          EXPECT_EQ(floats_in(folder / concat("deep/er/", step, "/", p->info.name, ".residual.f32")).size(),
                    residual ? static_cast<std::size_t>(p->info.elements) : 0u)
              << p->info.name;
      }
    });
    for (std::size_t i = 0; i < dumped.size(); ++i) ASSERT_NEAR(dumped[i], alone.update[i], 1e-5) << i;
    EXPECT_TRUE(std::filesystem::exists(folder / "deep/er/step-000010"));
    EXPECT_FALSE(std::filesystem::exists(folder / "deep/er/step-000011"));
  }
  Recipe recipe(perceptron);
  recipe.trainer.dump_gradients = "/dev/null/x";
  EXPECT_NE(error_of<DataError>([&] { train(recipe); }).find("`dump-gradients`"), std::string::npos);
}

TEST(Trainer, StrategiesThatSendLittleRefuseWhatTheyCannotDo) {
  Recipe recipe(perceptron, 2);
  recipe.sync = "redsync";
  recipe.trainer.optimizer.name = "adam";
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("`optimizer`"), std::string::npos);
  recipe.trainer.optimizer = {.dampening = 0.5};
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("dampening"), std::string::npos);
  recipe.trainer.optimizer = {};
  recipe.trainer.clip = Clip::parse("value:1");
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("`clip`"), std::string::npos);
  recipe.sync = "redsink";
  EXPECT_NE(
      error_of<UsageError>([&] { train(recipe); }).find("unknown method 'redsink' (`sync`): did you mean redsync?"),
      std::string::npos);
}

TEST(Trainer, LeavesAModelThatWorksWithoutIt) {
  const auto model = perceptron();
  const auto data = tiny_images(40, 10);
  dist::on_ranks(1, [&](dist::Worker& worker) {
    ImageClassification task(model, data, 0, 1, {.batch = 8});
    Trainer(worker, task, {.epochs = 1}).run();
  });
  const Tensor x = Tensor::full({2, 3, 8, 8}, 0.5f);
  EXPECT_EQ((*model)(x).shape(), (Shape{2, 7}));  // its context and its arena's listener are gone
}

}  // namespace
}  // namespace laconic
