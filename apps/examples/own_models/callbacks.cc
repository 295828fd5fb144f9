// Callbacks find a learning rate, keep the best model, and end the training when nothing improves any more.
#include <laconic/data/table.h>
#include <laconic/dist/trainer/evaluation.h>
#include <laconic/dist/trainer/supervised.h>
#include <laconic/dist/trainer/trainer.h>
#include <laconic/layers/layers.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace laconic;

/// Remembers the loss at every learning rate, while that rises from step to step.
struct RateFinder final : Observer {
  std::vector<std::pair<double, double>> seen;
  void on_step(const StepReport& step) override { seen.emplace_back(step.lr, step.loss); }
  double rate() const {  // a third of the one at which the loss was lowest
    const auto lowest =
        std::min_element(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return lowest->first / 3;
  }
};

/// Saves the model whenever a loss is below the best by 0.001; has seen enough after so many that were not.
struct KeepBest final : Observer {
  const Module& model;
  std::string file;
  int patience, bad = 0;
  double best = INFINITY;
  KeepBest(const Module& its, std::string where, int patient) : model(its), file(std::move(where)), patience(patient) {}
  void on_eval(const EvalReport& eval) override {
    if (eval.loss < best - 0.001) {
      best = eval.loss, bad = 0;
      save_safetensors(model.state_dict(), file);
    } else {
      ++bad;
    }
  }
  bool enough() const { return bad >= patience; }
};

std::shared_ptr<Module> network() {
  return sequential(
      {make<Linear>({.in = 2, .out = 32}), make<Tanh>(), make<Linear>({.in = 32, .out = 2, .output = true})});
}

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("give rings.csv"), 1;
  const Table table = read_csv(argv[1]);
  const auto [train, test] = split(tensor_dataset(table.numbers({"x", "y"}), table.classes("ring")), 0.8);
  double best = 0;
  std::int64_t epochs = 0;
  dist::run_workers({.workers = 2}, [&, train = train, test = test](dist::Worker& worker) {
    RateFinder finder;
    Supervised trial(network(), train, test, CrossEntropy(), worker, {.batch = 16});
    Trainer(worker, trial, {.epochs = 100, .steps = 60, .lr = 1e-3, .schedule = Schedule::parse("exp:1.15it")}, &finder)
        .run();
    std::vector<double> rate{worker.rank == 0 ? finder.rate() : 0};  // rank 0 observes; the others are told
    sum_over_workers(worker, "learning rate", rate);

    const auto model = network();
    Supervised task(model, train, test, CrossEntropy(), worker, {.batch = 16});
    KeepBest keep(*model, "best.safetensors", 5);
    const RunSummary summary =
        Trainer(worker, task, {.epochs = 1000, .lr = rate[0], .stop_requested = [&] { return keep.enough(); }}, &keep)
            .run();
    if (worker.rank == 0) best = keep.best, epochs = summary.last_eval->epoch;
  });
  std::printf("callbacks: loss %.3f, the best of %d epochs\n", best, static_cast<int>(epochs));
  return best < 0.3 ? 0 : 1;
}
