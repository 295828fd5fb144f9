// Which kind of wave is it? An LSTM that reads sequences of a data set of its own.
#include <cmath>
#include <cstdio>

#include "dist/trainer/supervised.h"
#include "dist/trainer/trainer.h"
#include "layers/layers.h"

using namespace laconic;

struct Waves final : Dataset {  // sines and saw teeth of any length, beginning anywhere
  std::int64_t size() const override { return 600; }
  Example get(std::int64_t i, Random& random) const override {
    const float length = random.uniform(6, 12);
    float at = random.uniform();
    const Tensor x = Tensor::empty({24, 1});
    for (int t = 0; t < 24; ++t, at = std::fmod(at + 1 / length, 1.0f))
      x.data<float>()[t] = i % 2 == 0 ? std::sin(6.2832f * at) : 1 - 2 * at;
    return {x, Tensor::of({}, std::vector<std::int64_t>{i % 2})};
  }
};

class Net final : public Module {
  Child<LSTM> rnn = child<LSTM>("rnn", {.in = 1, .hidden = 24});
  Child<Linear> out = child<Linear>("out", {.in = 24, .out = 2, .output = true});
  Tensor forward(const Tensor& x) override { return out(select(rnn(transpose(x, 0, 1)), 0, -1)); }
};

int main() {
  double share = 0;
  const auto waves = std::make_shared<Waves>();
  dist::run_workers({.workers = 2}, [&](dist::Worker& worker) {
    Supervised task(std::make_shared<Net>(), waves, waves, CrossEntropy(), worker,
                    {.batch = 16, .metrics = {{"accuracy", accuracy}}});
    const RunSummary s = Trainer(worker, task, {.epochs = 25, .lr = 0.01, .optimizer = {.name = "adam"}}).run();
    if (worker.rank == 0) share = s.last_eval->metrics[0].second;
  });
  std::printf("sequences: accuracy %.3f\n", share);
  return share > 0.9 ? 0 : 1;
}
