#include "dist/trainer/supervised.h"

#include <gtest/gtest.h>

#include "core/ops/functions.h"
#include "dist/trainer/trainer.h"
#include "layers/layers.h"
#include "tests/error_of.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

struct Perceptron final : Module {
  Child<Linear> in = child<Linear>("in", {.in = 3, .out = 16}), out = child<Linear>("out", {.in = 16, .out = 1});
  Tensor forward(const Tensor& x) override { return out(tanh(in(x))); }
};

/// y = x0 - 2 x1 + x0 x2, with an x that each epoch sees moved a little.
struct Surface final : Dataset {
  bool noisy = false;
  std::int64_t size() const override { return 90; }
  Example get(std::int64_t i, Random& random) const override {
    Random own(7, Purpose::test, static_cast<std::uint64_t>(i));
    std::vector<float> x(3);
    for (float& v : x) v = own.uniform(-1, 1);
    const float y = x[0] - 2 * x[1] + x[0] * x[2];
    if (noisy)
      for (float& v : x) v += random.uniform(-0.01f, 0.01f);
    return {Tensor::of({3}, x), Tensor::of({1}, {y})};
  }
};

struct Trained {
  RunSummary summary;
  std::vector<float> weights;
};
Trained train(int workers, std::int64_t batch, int data_threads) {
  Trained trained;
  dist::run_workers({.workers = workers}, [&](dist::Worker& worker) {
    const auto model = std::make_shared<Perceptron>();
    const auto data = std::make_shared<Surface>(), test = std::make_shared<Surface>();
    data->noisy = true;
    Supervised task(model, data, test, MSE(), worker,
                    {.batch = batch,
                     .eval_batch = 7,
                     .data_threads = data_threads,
                     .metrics = {{"error", mean_absolute_error}, {"largest", [](const Tensor& p, const Tensor& t) {
                                                                    return double{max(abs(p - t)).item()};
                                                                  }}}});
    Trainer trainer(worker, task, {.epochs = 40, .lr = 0.1, .optimizer = {.momentum = 0.9}});
    const RunSummary summary = trainer.run();
    if (worker.rank == 0) trained = {summary, trainer.arena().values().to_vector()};
  });
  return trained;
}

TEST(Supervised, LearnsARegressionAndMeasuresWhatIsAsked) {
  const Trained one = train(1, 18, 1);
  const EvalReport& eval = *one.summary.last_eval;
  EXPECT_LT(eval.loss, 0.01);
  ASSERT_EQ(eval.metrics.size(), 2u);
  EXPECT_EQ(eval.metrics[0].first, "error");
  EXPECT_LT(eval.metrics[0].second, 0.1);
  EXPECT_GE(eval.metrics[1].second, eval.metrics[0].second);
}

TEST(Supervised, AnyNumberOfWorkersAndDataThreadsSeesTheSameSamples) {
  const Trained one = train(1, 18, 1), threads = train(1, 18, 3), three = train(3, 6, 0);
  EXPECT_EQ(one.weights, threads.weights);
  ASSERT_EQ(one.weights.size(), three.weights.size());
  for (std::size_t i = 0; i < one.weights.size(); ++i) EXPECT_NEAR(one.weights[i], three.weights[i], 1e-3);
  EXPECT_NEAR(one.summary.last_eval->metrics[0].second, three.summary.last_eval->metrics[0].second, 1e-3);
}

TEST(Supervised, AStopEndsAnEvaluation) {
  dist::run_workers({.workers = 1}, [&](dist::Worker& worker) {
    Supervised task(std::make_shared<Perceptron>(), std::make_shared<Surface>(), std::make_shared<Surface>(), MSE(),
                    worker, {.batch = 9, .eval_batch = 7});
    int asked = 0;
    EXPECT_EQ(task.evaluate([&] { return ++asked > 2; }).samples, 14);
    EXPECT_TRUE(task.model().training());
  });
}

struct Uneven final : Dataset {
  std::int64_t size() const override { return 4; }
  Example get(std::int64_t i, Random&) const override { return {Tensor::zeros({i == 2 ? 4 : 3}), Tensor::zeros({1})}; }
};

TEST(Supervised, SaysWhatIsWrongWithItsData) {
  const auto run = [](const SharedDataset& data) {
    dist::run_workers({.workers = 1}, [&](dist::Worker& worker) {
      Supervised task(std::make_shared<Perceptron>(), data, nullptr, MSE(), worker, {.batch = 2, .name = "mine"});
      Trainer(worker, task, {.epochs = 1}).run();
    });
  };
  expect_error<ShapeError>([&] { run(std::make_shared<Uneven>()); },
                           {"data: x of sample 2 is float32 [4], but of sample 0 float32 [3] in host memory."});
  expect_error<DataError>(
      [&] {
        run(tensor_dataset(Tensor::zeros({0, 3}), Tensor::zeros({0, 1})));
      },
      {"mine: there is nothing to train on."});
}

TEST(Supervised, TrainsWhatIsNotFrozen) {
  std::vector<float> bytes;
  for (const bool freezes : {false, true}) {
    dist::run_workers({.workers = 2}, [&](dist::Worker& worker) {
      const auto model = std::make_shared<Perceptron>();
      if (freezes) model->in->freeze();
      Supervised task(model, std::make_shared<Surface>(), nullptr, MSE(), worker, {.batch = 9});
      // All ranks begin with what rank 0 draws, in frozen parameters too.
      TrainerOptions options{.epochs = 2, .lr = 0.1, .seed = 5};
      Trainer trainer(worker, task, options);
      const std::vector<float> in = model->in->weight()->value().to_vector(),
                               out = model->out->weight()->value().to_vector();
      const RunSummary summary = trainer.run();
      EXPECT_EQ(model->in->weight()->value().to_vector() == in, freezes);
      EXPECT_NE(model->out->weight()->value().to_vector(), out);
      EXPECT_EQ(trainer.arena().elements(), freezes ? 17 : 81);
      if (worker.rank == 0) bytes.push_back(static_cast<float>(summary.bytes_sent_total));
      expect_error<Error>([&] { model->out->freeze(); }, {"is being trained"});
      if (freezes) expect_error<Error>([&] { model->in->freeze(false); }, {"was frozen when a Trainer was made"});
    });
  }
  EXPECT_LT(bytes[1], bytes[0]);
}

TEST(Supervised, SaysThatNothingIsLeftToTrain) {
  dist::run_workers({.workers = 1}, [&](dist::Worker& worker) {
    const auto model = std::make_shared<Perceptron>();
    model->freeze();
    Supervised task(model, std::make_shared<Surface>(), nullptr, MSE(), worker, {.batch = 9});
    expect_error<UsageError>([&] { Trainer(worker, task, {.epochs = 1}); }, {"every parameter is frozen"});
  });
}

TEST(Supervised, KnowsTheMemoryOfAnyModel) {
  const auto trainer_with = [](std::uint64_t bytes) {
    dist::run_workers({.workers = 1}, [&](dist::Worker& worker) {
      Supervised task(std::make_shared<Perceptron>(), std::make_shared<Surface>(), nullptr, MSE(), worker,
                      {.batch = 9});
      Trainer(worker, task, {.epochs = 1, .memory = bytes});
    });
  };
  const std::uint64_t weights = 4 * 2 * (16 + 16 + 48 + 16);  // with gradients, in an arena
  expect_error<UsageError>([&] { trainer_with(weights + 4 * 9 * (16 + 16)); }, {"1 worker needs about 0.0 GiB"});
  trainer_with(weights + 4 * 9 * (10 * 16));
}

TEST(Predict, TakesOneSampleAndLeavesTheModelAsItWas) {
  Perceptron model;
  model.initialize(1);
  const Tensor y = predict(model, Tensor::of({3}, {1, 2, 3}));
  EXPECT_EQ(y.shape(), (Shape{1}));
  EXPECT_EQ(y.node(), nullptr);
  EXPECT_TRUE(model.training());
}

TEST(Metrics, AreMeansOverSamples) {
  const Tensor logits = Tensor::of({3, 3}, {1, 2, 0, 5, 4, 3, 0, 1, 2});
  const Tensor labels = Tensor::of({3}, std::vector<std::int64_t>{1, 1, 0});
  EXPECT_DOUBLE_EQ(accuracy(logits, labels), 1.0 / 3);
  EXPECT_DOUBLE_EQ(top_k(2)(logits, labels), 2.0 / 3);
  EXPECT_DOUBLE_EQ(mean_absolute_error(Tensor::of({2}, {1, 2}), Tensor::of({2}, {0, 4})), 1.5);
}

}  // namespace
}  // namespace laconic
