#include "dist/trainer/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "core/base/atomic_file.h"
#include "data/synthetic.h"
#include "dist/predict/simulation.h"
#include "dist/server/shard.h"
#include "dist/trainer/checkpoint.h"
#include "dist/trainer/image_classification.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/trainer.h"
#include "layers/layers.h"

namespace laconic {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Result {
  std::vector<std::vector<float>> parameters;  // by rank, in arena order
  std::vector<double> losses;                  // by step
  std::vector<double> bytes;                   // a step and worker: of all steps, and after a warm-up of half of them
  std::optional<double> expected;
  dist::SimulatedTraining on_ghosts;  // the same one
};

/// Of a model whose layers take no time to speak of.
dist::SimulatedTraining simulated(const Trainer& trainer, std::shared_ptr<const dist::Method> method,
                                  dist::TrainingFacts facts) {
  dist::SimulatedTraining training{.parameters = dist::infos_of(trainer.arena().parameters()),
                                   .plan = trainer.plan(),
                                   .method = std::move(method),
                                   .facts = std::move(facts)};
  dist::LayerTimes::Layer all{.name = "all", .forward_ms = 1, .backward_ms = 1, .parameters = {}};
  for (const ParameterInfo& info : training.parameters)
    all.parameters.push_back({.name = info.name, .elements = info.elements});
  training.times.layers.push_back(std::move(all));
  return training;
}

class Check {
 public:
  Check(std::string name, Pairs settings, const CheckOptions& options)
      : name_(std::move(name)),
        settings_(std::move(settings)),
        data_(std::make_shared<const ImageDataset>(synthetic_mnist({240, 20}))),
        is_(dist::method(name_, settings_)->traits()),
        lr_(options.lr),
        steps_(options.steps > 0 ? options.steps : std::max<std::int64_t>(24, 12 * is_.every)) {
    require<UsageError>(options.steps == 0 || options.steps >= 2 * kMean, "check_method compares the first ", kMean,
                        " steps with the last ", kMean, ", and ", options.steps, " are too few: give at least ",
                        2 * kMean);
  }

  void all() {
    check_settings();
    for (const int workers : {1, 2, 3, 5}) {
      const int servers = is_.servers && workers == 2 ? 2 : 0;
      training(workers, servers);
    }
    other_numbers();
  }

 private:
  static constexpr std::int64_t kMean = 8;  // steps whose losses are looked at together

  void require_that(bool ok, const std::string& promise, int workers) const {
    require<Error>(ok, "method ", name_, ": ", promise, " (", workers, workers == 1 ? " worker)." : " workers).");
  }

  Result train(int workers, int servers, TrainerOptions options) const {
    struct Losses final : Observer {
      void on_step(const StepReport& r) override {
        all.push_back(r.loss);
        bytes.push_back(static_cast<double>(r.bytes_sent_sum));
      }
      std::vector<double> all, bytes;
    } losses;
    Result result;
    result.parameters.resize(static_cast<std::size_t>(workers));
    const std::shared_ptr<const dist::Method> method = dist::method(name_, settings_);
    options.model_name = "conformance", options.seed = 3, options.epochs = 100;
    std::optional<double> fits;
    if (*is_.optimizer != '\0') options.optimizer.name = is_.optimizer, fits = optimizer_kind(is_.optimizer).lr;
    options.lr = lr_.value_or(fits.value_or(0.05));
    dist::run_workers({.workers = workers, .servers = servers, .timeout_seconds = 60}, [&](dist::Worker& worker) {
      if (worker.serves()) return serve(worker, *method, options);
      auto model = sequential({{"flatten", make<Flatten>()},
                               {"large", make<Linear>({.in = 784, .out = 32})},
                               {"relu", make<ReLU>()},
                               {"small", make<Linear>({.in = 32, .out = 10, .output = true})}});
      ImageClassification task(model, data_, worker.rank, worker.size, {.batch = 4, .seed = 3});
      Trainer trainer(worker, task, method, options, &losses);
      trainer.run();
      const auto r = static_cast<std::size_t>(worker.rank);
      for (const auto& p : trainer.arena().parameters()) {
        const std::vector<float> values = p->value().to_vector();
        result.parameters[r].insert(result.parameters[r].end(), values.begin(), values.end());
      }
      if (r > 0) return;
      result.on_ghosts = simulated(trainer, method, facts_of(options, workers, servers, 1));
      result.expected = method->expected_bytes(trainer.plan(), trainer.arena().parameters(), result.on_ghosts.facts);
    });
    result.losses = losses.all;
    for (const std::size_t from : {std::size_t{0}, losses.bytes.size() / 2}) {
      const auto first = losses.bytes.begin() + static_cast<std::ptrdiff_t>(from);
      result.bytes.push_back(std::accumulate(first, losses.bytes.end(), 0.0) /
                             static_cast<double>(losses.bytes.end() - first) / workers);
    }
    return result;
  }

  static double first_mean(const std::vector<double>& losses) {
    return std::accumulate(losses.begin(), losses.begin() + kMean, 0.0) / kMean;
  }
  static double last_mean(const std::vector<double>& losses) {
    return std::accumulate(losses.end() - kMean, losses.end(), 0.0) / kMean;
  }
  void require_learning(double before, double after, const std::string& when, int workers) const {
    const std::string exchanges = is_.every > 1 ? concat(" (", steps_ / is_.every, " exchanges)") : "";
    require_that(
        after < 0.98 * before,
        concat("it does not learn", when, ": the mean loss of the first ", kMean, " steps is ", before,
               ", that of the last ", kMean, " of ", steps_, exchanges, " is ", after, ", and was to be below ",
               0.98 * before, ". Is another rate or number of steps needed (CheckOptions)?"),
        workers);
  }

  void training(int workers, int servers) const {
    TrainerOptions options;
    options.steps = steps_;
    options.audit_every = 1;  // all workers hold the same bits, where the method promises that
    const Result first = train(workers, servers, options);
    require_that(first.losses.size() == static_cast<std::size_t>(steps_), "it made another number of steps", workers);
    require_learning(first_mean(first.losses), last_mean(first.losses), "", workers);
    options.audit_every = 0;
    const Result second = train(workers, servers, options);
    require_that(second.parameters == first.parameters, "a second run gives other bits", workers);
    for (const dist::Overlap overlap : {dist::Overlap::none, dist::Overlap::backward}) {
      TrainerOptions other = options;
      other.overlap = overlap;
      require_that(train(workers, servers, other).parameters == first.parameters,
                   concat("overlap ", dist::to_string(overlap), " gives other bits"), workers);
    }
    const auto as_said = [&](double bytes) {
      return std::abs(bytes - *second.expected) <= 0.25 * *second.expected + 2000;
    };
    if (second.expected && workers > 1 && is_.joins)
      require_that(std::ranges::any_of(second.bytes, as_said),
                   concat("it said that it sends ", *second.expected, " bytes a step, and sent ", second.bytes[0]),
                   workers);
    if (second.expected && workers > 1 && is_.joins && is_.on_ghosts && is_.alike && !is_.servers) {
      const double bytes = dist::simulate_step(second.on_ghosts, {.ranks = workers}).bytes_sent;
      require_that(
          as_said(bytes),
          concat("it said that it sends ", *second.expected, " bytes a step, and sends ", bytes, " in a simulation"),
          workers);
    }
    const ScratchFolder folder("conformance");
    TrainerOptions part = options;
    part.save = folder.path();
    part.steps = steps_ / 2 + 1;
    train(workers, servers, part);
    part.steps = steps_;
    part.resume = folder.path();
    require_that(train(workers, servers, part).parameters == first.parameters,
                 "a training that was stopped and resumed ends elsewhere", workers);
  }

  /// The sum or mean over workers of what they have saved and share, by name; outside of ranges that a file names it
  /// stays 0.
  using Shared = std::map<std::string, std::vector<double>>;

  /// Also: what is said to be equal is equal.
  Shared shared_in(const std::string& folder, int workers) const {
    const std::string checkpoint = CheckpointStore::newest(folder);
    Shared shared;
    const StateDict first = CheckpointStore::read_rank(checkpoint, 0);
    for (int r = 0; r < workers; ++r) {
      const StateDict state = CheckpointStore::read_rank(checkpoint, r);
      for (const auto& [name, tensor] : state) {
        if (name.starts_with("server/")) continue;
        if (is_.servers && name.starts_with("model/")) continue;  // workers begin with the servers' values
        const auto [join, ranges, weight] = dist::joined_from(state, name);
        if (join == dist::Join::equal)
          require_that(tensor.bytes() == first.at(name).bytes() &&
                           std::memcmp(tensor.raw_data(), first.at(name).raw_data(), tensor.bytes()) == 0,
                       concat("it says that ", name, " is equal on all, and it is not"), workers);
        const bool mean = join == dist::Join::mean;
        if (!mean && join != dist::Join::sum) continue;
        std::vector<double>& all = shared[name];
        all.resize(static_cast<std::size_t>(tensor.elements()));
        const std::vector<float> values = tensor.to_vector();
        for (std::size_t i = 0; i < all.size(); ++i) {
          const auto inside = [at = static_cast<std::int64_t>(i)](const auto& range) {
            return at >= range.first && at < range.first + range.second;
          };
          if (ranges.empty() || std::any_of(ranges.begin(), ranges.end(), inside))
            all[i] += weight * double{values[i]} / (mean ? workers : 1);
        }
      }
    }
    return shared;
  }

  /// 4 workers, then 3, then 4: what they share is all there each time, and training goes on.
  void other_numbers() const {
    const ScratchFolder a("conformance"), b("conformance"), c("conformance"), d("conformance");
    const auto servers = [&](int k) { return is_.servers ? k : 0; };
    TrainerOptions options;
    options.steps = steps_ / 2 + 1, options.audit_every = 1;
    options.save = a.path();
    const Result begun = train(4, servers(2), options);
    const auto resume = [&](int workers, int k, const std::string& from, const std::string& to, std::int64_t steps) {
      options.resume = from, options.save = to, options.steps = steps;
      return train(workers, servers(k), options);
    };
    resume(3, 1, a.path(), b.path(), *options.steps);
    resume(4, 0, b.path(), c.path(), *options.steps);
    const Shared before = shared_in(a.path(), 4);
    for (const auto& [folder, workers] : {std::pair{b.path(), 3}, {c.path(), 4}}) {
      const Shared after = shared_in(folder, workers);
      require_that(after.size() == before.size(), "other workers share other tensors", workers);
      for (const auto& [name, was] : before)
        for (std::size_t i = 0; i < was.size(); ++i)
          require_that(std::abs(after.at(name)[i] - was[i]) <= 0x1p-23 * std::abs(was[i]) + 0x1p-126,
                       concat("element ", i, " of ", name, " was ", was[i], ", and is ", after.at(name)[i]), workers);
    }
    resume(3, 2, c.path(), d.path(), steps_ - 4);
    const Result ended = resume(4, 1, d.path(), "", steps_ + 8);
    require_that(ended.losses.size() == 12, "it made another number of steps after others had begun", 4);
    require_learning(first_mean(begun.losses), last_mean(ended.losses), " after others have begun", 4);
  }

  void check_settings() const {
    const std::unique_ptr<dist::Method> method = dist::method(name_, settings_);
    require_that(method->name() == name_, "it has another name than its catalogue says", 1);
    require_that(!method->summary().empty(), "it has no summary", 1);
    Settings table;
    method->settings(table);
    for (Setting& setting : table.all()) {
      require_that(!setting.help.empty() && !setting.group.empty(), "its setting " + setting.name + " has no help", 1);
      if (!setting.text || setting.takes == Setting::Takes::nothing) continue;
      const std::string before = method->fingerprint(), text = setting.text();
      setting.set(text);
      require_that(method->fingerprint() == before,
                   "its setting " + setting.name + " does not take its own value, " + text, 1);
    }
  }

  const std::string name_;
  const Pairs settings_;
  const std::shared_ptr<const ImageDataset> data_;
  const dist::Method::Traits is_;
  const std::optional<double> lr_;
  const std::int64_t steps_;
};

}  // namespace

void check_method(const std::string& method, const Pairs& settings, const CheckOptions& options) {
  Check(method, settings, options).all();
}

}  // namespace laconic
