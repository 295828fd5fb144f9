#include "tests/training.h"

#include <algorithm>
#include <cmath>

#include "core/ops/reshape.h"
#include "core/base/random.h"
#include "dist/trainer/servers.h"

namespace laconic {

std::shared_ptr<const ImageDataset> tiny_images(std::int64_t train, std::int64_t test) {
  ImageDataset data;
  data.name = "tiny";
  data.channels = 3, data.height = data.width = 8, data.classes = 7;
  data.mean = {0.5f, 0.5f, 0.5f}, data.std = {0.25f, 0.25f, 0.25f};
  std::uint64_t image = 0;
  for (auto [split, count] : {std::pair{&data.train, train}, std::pair{&data.test, test}})
    for (std::int64_t i = 0; i < count; ++i, ++image) {
      Random random(7, Purpose::synthetic, 77, image);
      const int label = static_cast<int>(random.below(7));
      split->labels.push_back(label);
      for (int c = 0; c < 3; ++c)
        for (int y = 0; y < 8; ++y)
          for (int x = 0; x < 8; ++x) {
            const bool bright = c == label % 3 && y / 4 == label / 3 % 2 && x / 4 == label / 6;
            split->pixels.push_back(static_cast<std::uint8_t>(random.below(128) + (bright ? 100 : 0)));
          }
    }
  return std::make_shared<const ImageDataset>(std::move(data));
}

std::shared_ptr<Module> perceptron() {
  return sequential({{"flatten", make<Flatten>()},
                     {"fc1", make<Linear>({.in = 192, .out = 24})},
                     {"relu", make<ReLU>()},
                     {"drop", make<Dropout>({.p = 0.3f})},
                     {"fc2", make<Linear>({.in = 24, .out = 7})}});
}
std::shared_ptr<Module> convolutional() {
  return sequential({{"conv", make<Conv2d>({.in = 3, .out = 8, .pad = 1})},
                     {"relu", make<ReLU>()},
                     {"pool", make<MaxPool2d>({.kernel = 2})},
                     {"flatten", make<Flatten>()},
                     {"drop", make<Dropout>({.p = 0.5f})},
                     {"fc", make<Linear>({.in = 128, .out = 7})}});
}
std::shared_ptr<Module> normalized() {
  return sequential({{"conv", make<Conv2d>({.in = 3, .out = 16, .pad = 1, .bias = false})},
                     {"bn", make<BatchNorm2d>({.channels = 16})},
                     {"relu", make<ReLU>()},
                     {"pool", make<MaxPool2d>({.kernel = 2})},
                     {"flatten", make<Flatten>()},
                     {"drop", make<Dropout>({.p = 0.2f})},
                     {"fc", make<Linear>({.in = 256, .out = 7})}});
}

namespace {

struct Reading final : Module {
  static constexpr int kWords = 6, kVocabulary = 48, kHidden = 32;
  Reading() {
    encoder = child<Embedding>("encoder", {.vocabulary = kVocabulary, .dim = kHidden});
    lstm = child<LSTM>("lstm", {.in = kHidden, .hidden = kHidden});
    gru = child<GRU>("gru", {.in = kHidden, .hidden = kHidden});
    decoder =
        child<Linear>("decoder", {.in = kHidden, .out = kVocabulary, .output = true, .weight = encoder->weight()});
  }
  Tensor forward(const Tensor& images) override {
    const std::int64_t batch = images.dim(0), pixels = images.elements() / batch;
    const std::vector<float> values = images.to_vector();
    std::vector<std::int64_t> words;
    for (int t = 0; t < kWords; ++t)
      for (std::int64_t b = 0; b < batch; ++b) {
        const float value = values[static_cast<std::size_t>(b * pixels + t * (pixels / kWords))];
        words.push_back(std::clamp(static_cast<int>(kVocabulary / 2 + 12 * value), 0, kVocabulary - 1));
      }
    const Tensor x = Tensor::of({kWords, batch}, std::span<const std::int64_t>(words), images.device());
    const Tensor y = (*gru)((*lstm)((*encoder)(x)));
    const Tensor last =
        ops::slice(ops::reshape(y, {1, y.elements()}), 1, (kWords - 1) * batch * kHidden, kWords * batch * kHidden);
    return (*decoder)(ops::reshape(last, {batch, kHidden}));
  }
  std::shared_ptr<Embedding> encoder;
  std::shared_ptr<LSTM> lstm;
  std::shared_ptr<GRU> gru;
  std::shared_ptr<Linear> decoder;
};

}  // namespace

std::shared_ptr<Module> reading() { return std::make_shared<Reading>(); }

std::shared_ptr<Module> mixed() {
  const auto twice = make<Linear>({.in = 64, .out = 64});
  return sequential({{"conv", make<Conv2d>({.in = 3, .out = 16, .pad = 1, .bias = false})},
                     {"bn", make<BatchNorm2d>({.channels = 16})},
                     {"relu", make<ReLU>()},
                     {"pool", make<MaxPool2d>({.kernel = 2})},
                     {"flatten", make<Flatten>()},
                     {"large", make<Linear>({.in = 256, .out = 64})},
                     {"relu1", make<ReLU>()},
                     {"first", twice},
                     {"relu2", make<ReLU>()},
                     {"second", twice},
                     {"drop", make<Dropout>({.p = 0.2f})},
                     {"fc", make<Linear>({.in = 64, .out = 7})}});
}

Recipe::Recipe(std::function<std::shared_ptr<Module>()> m, int n)
    : model(std::move(m)), workers(n), data(tiny_images(150, 60)) {
  task.batch = 16;
  task.seed = trainer.seed = 3;
  trainer.epochs = 2;
  trainer.lr = 0.1;
  trainer.audit_every = 1;
  trainer.joint_at_end = false;
}
Recipe::Recipe(const Recipe&) = default;  // not inline: g++ 12 then takes its members for uninitialized
Recipe::~Recipe() = default;

void Recipe::choose(const char* name, const char* from, const char* density,
                    std::vector<std::pair<std::string, std::string>> more) {
  sync = name, settings = std::move(more);
  const bool by_itself = std::ranges::find(settings, std::pair<std::string, std::string>("selector", "auto")) !=
                         settings.end();  // it says which travel whole
  Settings known;
  const std::unique_ptr<dist::Method> one = dist::methods().make(sync);
  one->settings(known);
  for (const auto& [setting, text] : {std::pair{"dense-below", from}, {"density", density}})
    if (known.find(setting) != nullptr && !(setting == std::string("dense-below") && by_itself))
      settings.insert(settings.begin(), {setting, text});
}

std::vector<float> parameters_of(const Trainer& trainer) {
  std::vector<float> all;
  for (const auto& p : trainer.arena().parameters()) {
    const auto values = p->value().to_vector();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

Outcome train(const Recipe& recipe) {
  struct Recorder final : Observer {
    explicit Recorder(Outcome& o) : outcome(o) {}
    void on_step(const StepReport& r) override { outcome.steps.push_back(r); }
    void on_eval(const EvalReport& r) override { outcome.evals.push_back(r); }
    void on_start(const RunInfo& info) override {
      if (info.receipt) outcome.plans.push_back(*info.receipt);
    }
    void on_ranks(const RanksReport& r) override { outcome.ranks.push_back(r); }
    Outcome& outcome;
  };
  Outcome outcome;
  const auto ranks = static_cast<std::size_t>(recipe.workers);
  outcome.parameters.resize(ranks);
  outcome.buffers.resize(ranks);
  Recorder recorder(outcome);
  const dist::Watchdog watchdog(600);
  const std::shared_ptr<const dist::Method> method = recipe.method();
  dist::run_workers({.workers = recipe.workers, .servers = recipe.servers, .timeout_seconds = 60, .link = recipe.link},
                    [&](dist::Worker& worker) {
                      TrainerOptions options = recipe.trainer;
                      if (recipe.per_rank) recipe.per_rank(options, worker.rank);
                      if (worker.serves()) return serve(worker, *method, options);
                      std::unique_ptr<Workload> task = std::make_unique<ImageClassification>(
                          recipe.model(), recipe.data, worker.rank, worker.size, recipe.task);
                      if (recipe.wrap) task = recipe.wrap(std::move(task), worker);
                      Trainer trainer(worker, *task, method, options, &recorder);
                      const RunSummary summary = trainer.run();
                      const auto r = static_cast<std::size_t>(worker.rank);
                      if (r == 0) outcome.summary = summary;
                      outcome.parameters[r] = parameters_of(trainer);
                      for (const auto& [name, tensor] : task->model().named_buffers())
                        outcome.buffers[r][name] = tensor.to_vector();
                    });
  return outcome;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 1e30;
  double difference = 0, scale = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double{a[i]} - double{b[i]});
    if (!(d <= difference)) difference = d;  // NaN stays
    scale = std::max(scale, std::abs(double{a[i]}));
  }
  return difference / scale;
}

}  // namespace laconic
