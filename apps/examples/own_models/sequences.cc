// Which kind of wave is it? An LSTM on a data set of its own, in a program with every option of the bundled ones:
//   ./sequences --hidden 32 --workers 4 --sync redsync --link 100mbit,1ms --save run
#include <laconic/apps/programs.h>
#include <laconic/core/base/settings.h>
#include <laconic/dist/trainer/supervised.h>
#include <laconic/layers/layers.h>

#include <cmath>

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
 public:
  explicit Net(int hidden) : hidden_(hidden) {}

 private:
  const int hidden_;
  Child<LSTM> rnn = child<LSTM>("rnn", {.in = 1, .hidden = hidden_});
  Child<Linear> out = child<Linear>("out", {.in = hidden_, .out = 2, .output = true});
  Tensor forward(const Tensor& x) override { return out(select(rnn(transpose(x, 0, 1)), 0, -1)); }
};

int main(int argc, char** argv) {
  int hidden = 24;
  const auto waves = std::make_shared<Waves>();
  return run_program(
      argc, argv,
      {.name = "sequences",
       .summary = "Tells sines from saw teeth.",
       .options = "--epochs 25 --batch 16 --optimizer adam --lr 0.01",
       .task =
           [&](OwnTaskOptions options, const dist::Worker& worker) {
             options.name = "waves", options.metrics = {{"accuracy", accuracy}};
             return std::make_unique<Supervised>(std::make_shared<Net>(hidden), waves, waves, CrossEntropy(), worker,
                                                 options);
           },
       .settings = [&](Settings& s) { s.whole_number<int>("hidden", "H", hidden, 1, "cells of the LSTM"); }});
}
