// Self-attention from matmul, softmax and transpose, trained by four workers that send a fiftieth of each gradient.
#include <laconic/dist/trainer/supervised.h>
#include <laconic/dist/trainer/trainer.h>
#include <laconic/layers/layers.h>

#include <cmath>
#include <cstdio>

using namespace laconic;

struct Lookups final : Dataset {  // eight symbols; the first says which of the others is the answer
  std::int64_t size() const override { return 2000; }
  Example get(std::int64_t i, Random& random) const override {
    std::vector<std::int64_t> x(8);
    for (std::int64_t& symbol : x) symbol = random.below(8);
    x[0] = 1 + i % 7;
    return {Tensor::of({8}, x), Tensor::of({}, std::vector{x[static_cast<std::size_t>(x[0])]})};
  }
};

class Attention final : public Module {
  Child<Linear> query = child<Linear>("query", {.in = 32, .out = 32}),
                key = child<Linear>("key", {.in = 32, .out = 32}),
                value = child<Linear>("value", {.in = 32, .out = 32});
  Tensor forward(const Tensor& x) override {  // [B, T, 32]
    const Tensor scores = matmul(query(x), transpose(key(x), 1, 2)) / std::sqrt(32.0f);
    return x + matmul(softmax(scores), value(x));
  }
};

class Net final : public Module {
  Child<Embedding> symbols = child<Embedding>("symbols", {.vocabulary = 8, .dim = 32});
  std::shared_ptr<Parameter> places = parameter("places", {8, 32}, Role::embedding, init::normal(1));
  Child<Attention> attention = child<Attention>("attention");
  Child<Linear> out = child<Linear>("out", {.in = 32, .out = 8, .output = true});
  Tensor forward(const Tensor& x) override { return out(select(attention(symbols(x) + places->fresh()), 1, 0)); }
};

int main() {
  RunSummary summary;
  dist::run_workers({.workers = 4}, [&](dist::Worker& worker) {
    const auto data = std::make_shared<Lookups>();
    Supervised task(std::make_shared<Net>(), data, data, CrossEntropy(), worker,
                    {.batch = 16, .metrics = {{"accuracy", accuracy}}});
    Trainer trainer(worker, task, dist::method("redsync", {{"density", "0.02"}, {"dense-below", "1KiB"}}),
                    {.epochs = 30, .lr = 0.05, .optimizer = {.momentum = 0.9}});
    const RunSummary ours = trainer.run();
    if (worker.rank == 0) summary = ours;
  });
  const double share = summary.last_eval->metrics[0].second,
               sent = static_cast<double>(summary.bytes_sent_total) / static_cast<double>(summary.bytes_dense_total);
  std::printf("attention: accuracy %.3f, with %.1f %% of the bytes of dense training\n", share, 100 * sent);
  return share > 0.9 ? 0 : 1;
}
