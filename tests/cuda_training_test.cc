// Training on a CUDA device: the CPU's losses, the same bits every time and on all ranks, and no gradients on the host.
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <optional>

#include "compress/cuda/select.h"
#include "core/precision.h"
#include "data/synthetic.h"
#include "dist/trainer/language_modelling.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

class CudaTraining : public CudaTest {};

Outcome on_cuda(Recipe recipe) {
  recipe.trainer.device = kCuda;
  return train(recipe);
}

void expect_losses_near(const Outcome& cpu, const Outcome& cuda, double tolerance) {
  ASSERT_EQ(cpu.steps.size(), cuda.steps.size());
  for (std::size_t i = 0; i < cpu.steps.size(); ++i)
    EXPECT_NEAR(cuda.steps[i].loss, cpu.steps[i].loss, tolerance * cpu.steps[i].loss) << "step " << i + 1;
  ASSERT_EQ(cpu.evals.size(), cuda.evals.size());
  EXPECT_NEAR(cuda.evals.back().loss, cpu.evals.back().loss, tolerance * cpu.evals.back().loss);
}

/// A model of the zoo on generated images.
Recipe zoo_recipe(const std::string& model, int workers, int batch, int steps) {
  Recipe recipe([model] { return make_model(model); }, workers);
  const SyntheticOptions few{.train = 12 * batch * workers, .test = 10};
  recipe.data = std::make_shared<const ImageDataset>(model == "lenet" ? synthetic_mnist(few) : synthetic_cifar10(few));
  recipe.task.batch = batch;
  recipe.trainer.optimizer = {.momentum = 0.9, .decay = {.weight_decay = 5e-4}};
  recipe.trainer.lr = 0.02;
  recipe.trainer.steps = steps;
  recipe.trainer.audit_every = 0;
  return recipe;
}

TEST_F(CudaTraining, LenetHasTheLossesOfTheCpuAndTheSameBitsEveryTime) {
  const Recipe recipe = zoo_recipe("lenet", 1, 8, 10);
  const Outcome cuda = on_cuda(recipe);
  expect_losses_near(train(recipe), cuda, 1e-4);
  EXPECT_TRUE(same_bits(on_cuda(recipe).parameters[0], cuda.parameters[0]));
}

TEST_F(CudaTraining, ResNet20HasTheLossesOfTheCpu) {
  const Recipe recipe = zoo_recipe("resnet20", 1, 2, 3);
  expect_losses_near(train(recipe), on_cuda(recipe), 1e-3);
}

TEST_F(CudaTraining, FourWorkersOnOneGpuLearnAsFourOnTheCpu) {
  Recipe recipe = zoo_recipe("lenet", 4, 4, 6);
  recipe.trainer.audit_every = 1;
  const Outcome cuda = on_cuda(recipe);
  expect_losses_near(train(recipe), cuda, 1e-4);
  for (int r = 1; r < 4; ++r) EXPECT_TRUE(same_bits(cuda.parameters[static_cast<std::size_t>(r)], cuda.parameters[0]));
  EXPECT_TRUE(same_bits(on_cuda(recipe).parameters[0], cuda.parameters[0]));
}

TEST_F(CudaTraining, SmallModelsWithDropoutHaveTheLossesOfTheCpu) {
  for (const auto& model : {perceptron, convolutional, normalized, mixed, reading})
    for (int workers : {1, 2}) {
      Recipe recipe(model, workers);
      recipe.trainer.optimizer.momentum = 0.9;
      recipe.trainer.lr = 0.03;
      recipe.trainer.steps = 10;
      expect_losses_near(train(recipe), on_cuda(recipe), 1e-4);
    }
}

TEST_F(CudaTraining, EveryOverlapGivesTheSameBits) {
  std::vector<float> first;
  for (const dist::Overlap overlap : {dist::Overlap::none, dist::Overlap::backward, dist::Overlap::forward}) {
    Recipe recipe(mixed, 2);
    recipe.trainer.overlap = overlap;
    recipe.trainer.optimizer.momentum = 0.9;
    recipe.trainer.steps = 8;
    const Outcome outcome = on_cuda(recipe);
    if (first.empty()) first = outcome.parameters[0];
    EXPECT_TRUE(same_bits(outcome.parameters[0], first));
    EXPECT_TRUE(same_bits(outcome.parameters[1], first));
  }
}

TEST_F(CudaTraining, RecomputedActivationsChangeNoBit) {
  Recipe recipe = zoo_recipe("lenet", 1, 4, 4);
  const Outcome kept = on_cuda(recipe);
  recipe.trainer.checkpoint_activations = true;
  EXPECT_TRUE(same_bits(on_cuda(recipe).parameters[0], kept.parameters[0]));
}

TEST_F(CudaTraining, InBf16LossesAreNearAndRecomputingChangesNoBit) {
  Recipe recipe = zoo_recipe("resnet20", 1, 2, 3);
  const Outcome exact = on_cuda(recipe);
  set_matmul_precision(Precision::bf16);
  const Outcome kept = on_cuda(recipe);
  recipe.trainer.checkpoint_activations = true;
  const Outcome again = on_cuda(recipe);
  set_matmul_precision(Precision::fp32);
  EXPECT_TRUE(same_bits(again.parameters[0], kept.parameters[0]));
  EXPECT_FALSE(same_bits(exact.parameters[0], kept.parameters[0]));
  expect_losses_near(exact, kept, 3e-2);
  if (exact.summary.activation_bytes_peak && kept.summary.activation_bytes_peak) {
    EXPECT_LT(*kept.summary.activation_bytes_peak, 0.6 * static_cast<double>(*exact.summary.activation_bytes_peak));
  }
}

TEST_F(CudaTraining, MicroBatchesAndClippingHaveTheLossesOfTheCpu) {
  Recipe recipe(normalized, 2);
  recipe.trainer.accumulate = 2;
  recipe.trainer.clip = Clip::parse("norm:0.5");
  recipe.trainer.steps = 5;
  expect_losses_near(train(recipe), on_cuda(recipe), 1e-4);
}

TEST_F(CudaTraining, ACheckpointOfTheCpuGoesOnHere) {
  TempFolder folder;
  Recipe recipe(normalized, 2);
  recipe.trainer.optimizer.momentum = 0.9;
  recipe.trainer.steps = 8;
  const Outcome cpu = train(recipe);
  recipe.trainer.steps = 4;
  recipe.trainer.save = folder.path();
  train(recipe);
  recipe.trainer.steps = 8;
  recipe.trainer.save.clear();
  recipe.trainer.resume = folder.path();
  const Outcome cuda = on_cuda(recipe);
  ASSERT_EQ(cuda.steps.size(), 4u);
  EXPECT_NEAR(cuda.steps[3].loss, cpu.steps[7].loss, 1e-4 * cpu.steps[7].loss);
}

TEST_F(CudaTraining, MemoryIsTheDevices) {
  const Outcome outcome = on_cuda(zoo_recipe("lenet", 1, 8, 3));
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer allocates";
#endif
  ASSERT_TRUE(outcome.summary.memory_bytes_peak);
  EXPECT_GT(*outcome.summary.activation_bytes_peak, 8 * 6 * 28 * 28 * 4);
  EXPECT_GT(*outcome.summary.memory_bytes_peak, *outcome.summary.activation_bytes_peak + 3 * 61706 * 4);
}

TEST_F(CudaTraining, ALabelThatCannotBeIsSaidInItsStep) {
  struct Wrong final : Passing {
    using Passing::Passing;
    Share load() override {
      ++loads;
      return Passing::load();
    }
    Tensor loss() override {
      if (loads != 2) return Passing::loss();
      const Tensor logits = Tensor::zeros({2, 3}, DType::f32, kCuda);
      const std::int64_t labels[] = {0, 3};
      return ops::add(Passing::loss(),
                      ops::cross_entropy(logits, Tensor::of({2}, std::span<const std::int64_t>(labels), kCuda)));
    }
    int loads = 0;
  };
  Recipe recipe(perceptron);
  recipe.wrap = [](std::unique_ptr<Workload> task, const dist::Worker&) {
    return std::make_unique<Wrong>(std::move(task));
  };
  int steps = 0;
  recipe.trainer.stop_requested = [&] { return ++steps, false; };  // asked once a step
  expect_error<DataError>([&] { on_cuda(recipe); }, {"label 3 at position 1 is not in [0, 3)"});
  EXPECT_EQ(steps, 1);
}

// What a step brings to the host is its loss, and where a strategy decides there, counts and bounds: no gradients. Of
// RedSync the message goes there, of Slim-DP all that travels. The host waits for the device once, for the loss, and
// where docs/cuda.md says so.
TEST_F(CudaTraining, GradientsStayOnTheDevice) {
  struct Case {
    const char* name;
    std::function<void(Recipe&)> set;
    double bytes;  ///< that must come there, each step and worker; all gradients are 86,108
    std::optional<double> waits = std::nullopt;  ///< of the host, each step and worker
  };
  constexpr double kLoss = 4, kDensity = 0.02, kAlpha = 0.3;
  constexpr double kElements = 21527, kOfMatrices = 432 + 16384 + 4096 + 448;  // the four that are sent sparse
  constexpr double kSparse = kLoss + 4 * sizeof(compress::cuda::SelectState) + 8 * kDensity * kOfMatrices;
  const Case cases[] = {
      {"allreduce", [](Recipe&) {}, kLoss, 1},
      {"redsync", [](Recipe& r) { r.choose("redsync", "1024", "0.02"); }, kSparse, 1},
      {"redsync, delta",
       [](Recipe& r) {
         r.choose("redsync", "1024", "0.02", {{"index-coding", "delta"}});
       },
       kSparse, 1},
      {"randomk", [](Recipe& r) { r.choose("randomk", "1024", "0.02"); }, kSparse, 1},
      // For one bucket: the lengths of two blocks, the verdicts on two that came and on the one that is kept as sent.
      {"inceptionn", [](Recipe& r) { r.trainer.plan.allreduce = "ring", r.trainer.plan.codec = "inceptionn:2^-10"; },
       kLoss + 5 * 16, 1 + 5},
      {"ps", [](Recipe& r) { r.sync = "ps"; }, kLoss, 1},
      {"layerdrop", [](Recipe& r) { r.sync = "layerdrop"; }, kLoss + 5 * sizeof(double)},  // norms of five layers
      // Each sends a share of everything, and as the server of one half a share of that to the other.
      {"slimdp",
       [](Recipe& r) {
         r.sync = "slimdp", r.settings = {{"alpha", "0.3"}};
       },
       kLoss + 1.5 * kAlpha * 4 * kElements},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Recipe recipe(mixed, 2);
    recipe.data = tiny_images(32 * 16, 20);
    recipe.trainer.lr = 0.02;
    recipe.trainer.audit_every = 0;
    c.set(recipe);
    std::mutex mutex;
    std::vector<std::uint64_t> waits;  // so far, whenever a worker asks whether to stop: once a step
    recipe.trainer.stop_requested = [&] {
      const std::lock_guard lock(mutex);
      waits.push_back(waits_for_devices());
      return false;
    };
    const auto bytes = [&](int steps) {
      recipe.trainer.steps = steps;
      waits.clear();
      const std::uint64_t before = copied_to_host_bytes();
      const Outcome outcome = on_cuda(recipe);
      EXPECT_EQ(outcome.evals.size(), 1u);
      return static_cast<double>(copied_to_host_bytes() - before);
    };
    const double few = bytes(4), each = (bytes(8) - few) / (4 * recipe.workers);  // evaluation and set-up fall out
    EXPECT_GE(each, kLoss);
    EXPECT_LE(each, 1.1 * c.bytes);
    const auto asked = static_cast<std::size_t>(8 * recipe.workers);  // and in the evaluation once more
    ASSERT_GE(waits.size(), asked);
    if (!c.waits) continue;
    // A worker may be a step ahead of the other.
    EXPECT_NEAR(static_cast<double>(waits[asked - 1] - waits[0]) / static_cast<double>(asked - 1), *c.waits, 0.5);
  }
}

/// A small language model on generated text instead of images.
Recipe language_recipe(int workers) {
  Recipe recipe(perceptron, workers);
  recipe.wrap = [](std::unique_ptr<Workload>, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    static const auto text = std::make_shared<const TextDataset>(synthetic_text(700, 20));
    return std::make_unique<LanguageModelling>(
        std::make_shared<models::LanguageModel>(models::LanguageModel::Options{
            .vocabulary = text->vocabulary.size(), .hidden = 24, .dropout = 0.2f, .tied = true}),
        text, worker.rank, worker.size, LanguageModelling::Options{.batch = 4, .bptt = 6, .eval_rows = 4});
  };
  recipe.trainer.lr = 1;
  recipe.trainer.clip = Clip::parse("norm:1");
  recipe.trainer.steps = 8;
  return recipe;
}

TEST_F(CudaTraining, ALanguageModelHasTheLossesOfTheCpuAndGoesOnWithItsState) {
  for (int workers : {1, 2}) {
    Recipe recipe = language_recipe(workers);
    const Outcome whole = on_cuda(recipe);
    expect_losses_near(train(recipe), whole, 1e-4);
    TempFolder folder;
    recipe.trainer.save = folder.path();
    recipe.trainer.steps = 3;
    on_cuda(recipe);
    recipe.trainer.save.clear();
    recipe.trainer.resume = folder.path();
    recipe.trainer.steps = 8;
    const Outcome resumed = on_cuda(recipe);
    for (std::size_t r = 0; r < whole.parameters.size(); ++r)
      EXPECT_TRUE(same_bits(resumed.parameters[r], whole.parameters[r])) << "rank " << r;
  }
}

TEST_F(CudaTraining, ADeviceThatIsNotThereIsSaid) {
  Recipe recipe(perceptron);
  recipe.trainer.device = {Device::Kind::cuda, 99};
  expect_error<UsageError>([&] { train(recipe); }, {"there is no device cuda:99 (`device`): give a lower number"});
}

}  // namespace
}  // namespace laconic
