// What the training loop tells: its log, what was sent, evaluations, its description.
#include <gtest/gtest.h>

#include "dist/trainer/checkpoint.h"
#include "dist/trainer/trainer.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

TEST(Trainer, LogsStepsFromOneAndTheMeanLossOfTheGlobalBatch) {
  Recipe recipe(perceptron, 4);
  recipe.trainer.lr = 0;
  recipe.trainer.dropout = false;
  recipe.task.shuffle = false;
  const Outcome outcome = train(recipe);
  ASSERT_EQ(outcome.steps.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(outcome.steps[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(outcome.steps[i].epoch, i < 3 ? 1 : 2);
    EXPECT_EQ(outcome.steps[i].loss, outcome.steps[i % 3].loss);
    if (i == 0) continue;  // its messages may all go while the next one runs
    EXPECT_GT(outcome.steps[i].bytes_sent_sum, outcome.steps[i].bytes_sent);
    EXPECT_GT(outcome.steps[i].bytes_sent, 0);
  }
  recipe.workers = 1;
  recipe.task.batch = 64;
  const Outcome alone = train(recipe);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(alone.steps[i].loss, outcome.steps[i].loss, 1e-6);
}

TEST(Trainer, StepsAndWhatBelongsToNoneMakeUpAllBytes) {
  std::int64_t besides[2], i = 0;
  for (int steps : {2, 6}) {  // 6: two epochs, so one more evaluation
    Recipe recipe(perceptron, 4);
    recipe.trainer.audit_every = 0;
    recipe.trainer.steps = steps;
    const Outcome outcome = train(recipe);
    std::int64_t sum = 0;
    for (const StepReport& r : outcome.steps) sum += r.bytes_sent_sum;
    EXPECT_EQ(sum, outcome.summary.bytes_sent_total);
    EXPECT_GE(sum, outcome.summary.bytes_dense_total);
    EXPECT_LE(static_cast<double>(sum), 1.02 * static_cast<double>(outcome.summary.bytes_dense_total) + 4096);
    besides[i++] = outcome.summary.bytes_network_total - sum;
  }
  EXPECT_GT(besides[0], 0);           // the weights at the start
  EXPECT_GT(besides[1], besides[0]);  // the second evaluation
  EXPECT_LT(besides[1], besides[0] + 4096);
}

TEST(Trainer, AloneNothingIsSent) {
  const Outcome outcome = train(Recipe());
  EXPECT_EQ(outcome.summary.bytes_network_total, 0);
  ASSERT_FALSE(outcome.steps.empty());
  for (const StepReport& r : outcome.steps) EXPECT_EQ(r.bytes_sent, 0);
}

TEST(Trainer, IsNeverBlockedLongerThanAStepTakes) {
  Recipe recipe(normalized, 3);
  const Outcome outcome = train(recipe);
  const double global[] = {48, 48, 48, 6};  // of 150 images
  for (const StepReport& r : outcome.steps) {
    const double step_ms = 1e3 * global[(r.step - 1) % 4] / r.samples_per_s;
    EXPECT_GE(r.exposed_ms, 0);
    EXPECT_NEAR(r.step_ms, step_ms, 1e-6 * step_ms);
    EXPECT_LE(r.exposed_ms, step_ms);
    EXPECT_GE(r.comm_ms, 0);
    EXPECT_LE(r.forward_ms + r.backward_ms, 1.001 * step_ms);
  }
  EXPECT_LE(outcome.summary.exposed_share, 1);
}

TEST(Trainer, EvaluatesEveryTestSampleOnceForAnyNumberOfWorkers) {
  for (int N : {1, 2, 3, 5}) {
    Recipe recipe(perceptron, N);
    recipe.trainer.steps = 1, recipe.trainer.lr = 0;
    recipe.task.eval_batch = 7;
    const Outcome outcome = train(recipe);
    ASSERT_EQ(outcome.evals.size(), 1u);
    static EvalReport alone = outcome.evals[0];
    EXPECT_NEAR(outcome.evals[0].loss, alone.loss, 1e-6);
    EXPECT_DOUBLE_EQ(outcome.evals[0].top1_error, alone.top1_error);
    EXPECT_DOUBLE_EQ(*outcome.evals[0].top5_error, *alone.top5_error);
  }
}

TEST(Trainer, ACosineEndsWithTheLastStep) {
  for (const std::int64_t epochs : {0, 1}) {  // one has ten steps
    Recipe recipe;
    recipe.trainer.schedule = Schedule::parse("cosine"), recipe.trainer.epochs = epochs, recipe.trainer.steps = 30;
    const Outcome outcome = train(recipe);
    ASSERT_EQ(outcome.steps.size(), 30u);
    for (std::size_t i = 0; i < 30; ++i)
      EXPECT_NEAR(outcome.steps[i].lr, 0.1 * (1 + std::cos(M_PI * static_cast<double>(i) / 30)) / 2, 1e-9) << i;
  }
}

TEST(Trainer, WorkersThatJoinNothingKeepTheirRunningStatistics) {
  TempFolder folder;
  Recipe recipe(normalized, 2);
  recipe.sync = "none", recipe.trainer.audit_every = 0;
  recipe.trainer.save = folder.path();
  const Outcome outcome = train(recipe);
  EXPECT_NE(outcome.buffers[0], outcome.buffers[1]);
  const StateDict weights = load_safetensors(folder / "weights.safetensors");
  EXPECT_EQ(weights.at("bn.running_mean").to_vector(), outcome.buffers[0].at("bn.running_mean"));
}

/// Who keeps the best model keeps the one that was judged.
TEST(Trainer, AnObserverOfAnEvaluationSeesTheModelThatWasEvaluated) {
  struct Keeper final : Observer {
    void on_eval(const EvalReport&) override { seen = values_of(*model); }
    static std::vector<std::vector<float>> values_of(Module& model) {
      std::vector<std::vector<float>> all;
      for (const auto& p : model.parameters()) all.push_back(p->value().to_vector());
      for (const auto& [name, tensor] : model.named_buffers()) all.push_back(tensor.to_vector());
      return all;
    }
    Module* model = nullptr;
    std::vector<std::vector<float>> seen;
  };
  Keeper keeper;
  dist::run_workers({.workers = 2, .timeout_seconds = 60}, [&](dist::Worker& worker) {
    ImageClassification task(normalized(), tiny_images(150, 60), worker.rank, worker.size, {.batch = 16});
    if (worker.rank == 0) keeper.model = &task.model();
    Trainer trainer(worker, task, dist::method("rounds", {{"every", "4"}}), {.epochs = 1}, &keeper);
    trainer.run();  // leaves the joint model
    if (worker.rank == 0) {
      EXPECT_EQ(keeper.seen, Keeper::values_of(task.model()));
    }
  });
}

TEST(Trainer, EvaluationAndWeightsUseTheMeanOfTheRunningStatistics) {
  TempFolder folder;
  Recipe recipe(normalized, 3);
  recipe.trainer.save = folder.path();
  const Outcome outcome = train(recipe);
  EXPECT_NE(outcome.buffers[0].at("bn.running_mean"), outcome.buffers[1].at("bn.running_mean"));

  const StateDict weights = load_safetensors(folder / "weights.safetensors");
  for (const char* name : {"bn.running_mean", "bn.running_var"}) {
    const auto mean = weights.at(name).to_vector();
    for (std::size_t c = 0; c < mean.size(); ++c) {
      double sum = 0;  // in each epoch the first worker has 54 images, the others 48
      for (std::size_t r = 0; r < 3; ++r) sum += (r == 0 ? 54 : 48) * double{outcome.buffers[r].at(name)[c]};
      EXPECT_FLOAT_EQ(mean[c], static_cast<float>(sum / 150));
    }
  }
  for (int r = 0; r < 3; ++r) {
    const StateDict own = CheckpointStore::read_rank(CheckpointStore::newest(folder.path()), r);
    EXPECT_EQ(own.at("model/bn.running_mean").to_vector(),
              outcome.buffers[static_cast<std::size_t>(r)].at("bn.running_mean"));
  }

  // One worker with these weights measures the same.
  Recipe again(normalized);
  again.trainer.init = folder / "weights.safetensors";
  dist::on_ranks(1, [&](dist::Worker& worker) {
    ImageClassification task(again.model(), again.data, 0, 1, again.task);
    const EvalReport report = Trainer(worker, task, again.trainer).evaluate();
    EXPECT_NEAR(report.loss, outcome.evals.back().loss, 1e-6);
    EXPECT_DOUBLE_EQ(report.top1_error, outcome.evals.back().top1_error);
  });
}

TEST(Trainer, ADescriptionSaysOfEachParameterHowItTravels) {
  dist::on_ranks(2, [&](dist::Worker& worker) {
    Recipe recipe(mixed, 2);
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    for (const auto& [sync, choice, bytes] : {std::tuple{"redsync", "trimmed", "about 0.00 MB"},
                                              {"strom", "fixed", "as the gradients come"},
                                              {"allreduce", "ring", "about 0.09 MB"}}) {
      const std::string name = recipe.sync = sync;
      recipe.settings = name == "allreduce" ? Pairs{} : Pairs{{"dense-below", "1024"}};
      if (name == "strom") recipe.settings.emplace_back("threshold", "1");
      ImageClassification task(mixed(), recipe.data, worker.rank, worker.size, recipe.task);
      const std::string text = Trainer(worker, task, recipe.method(), recipe.trainer).description();
      EXPECT_NE(text.find(choice), std::string::npos) << text;
      EXPECT_NE(text.find(bytes), std::string::npos) << text;
      EXPECT_NE(text.find("\nlearning rate: "), std::string::npos) << text;
      EXPECT_EQ(text.find("residual") != std::string::npos, std::string(sync) != "allreduce");
    }
  });
}

/// The rates that a description tells, and what a training says of them.
TEST(Trainer, TellsTheRatesOfItsScheduleAndAWarmUpThatIsTooLong) {
  const auto told = [](const char* schedule, std::int64_t steps) {
    Recipe recipe;
    recipe.trainer.schedule = Schedule::parse(schedule), recipe.trainer.lr = 0.5, recipe.trainer.steps = steps;
    recipe.trainer.eval_every = 0, recipe.trainer.audit_every = 0;
    std::string text;
    dist::on_ranks(1, [&](dist::Worker& worker) {
      ImageClassification task(recipe.model(), recipe.data, 0, 1, recipe.task);
      text = Trainer(worker, task, recipe.trainer).description();
    });
    testing::internal::CaptureStderr();
    train(recipe);
    const auto at = text.find("learning rate: ");
    return text.substr(at, text.find('\n', at) - at) + "|" + testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told("warmup:50it+step:120it,0.5", 150),
            "learning rate: 0.01 in step 1, 0.5 in step 100, 0.25 in step 150|");
  EXPECT_EQ(told("const", 1), "learning rate: 0.5 in step 1|");
  EXPECT_EQ(told("const", 100), "learning rate: 0.5 in step 1, 0.5 in step 100|");
  EXPECT_EQ(told("warmup:20it+const", 5),
            "learning rate: 0.025 in step 1, 0.125 in step 5|laconic: warning: the warm-up ends with step 20 and the "
            "training with step 5, where the learning rate is 0.125 instead of 0.5\n");
  EXPECT_EQ(told("warmup:5it+const", 5), "learning rate: 0.1 in step 1, 0.5 in step 5|");
}

}  // namespace
}  // namespace laconic
