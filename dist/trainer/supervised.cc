#include "dist/trainer/supervised.h"

namespace laconic {

Supervised::Supervised(std::shared_ptr<Module> model, SharedDataset train, SharedDataset test, Loss loss,
                       const dist::Worker& worker, const Options& options)
    : SampleWorkload(std::move(model), reader_of(train, options.seed),
                     {.samples = train->size(),
                      .ranks = worker.size,
                      .rank = worker.rank,
                      .batch = options.batch,
                      .shuffle = options.shuffle,
                      .seed = options.seed},
                     options.data_threads),
      train_(std::move(train)),
      test_(std::move(test)),
      loss_(std::move(loss)),
      o_(options),
      content_(laconic::fingerprint(*train_)) {
  if (o_.metrics.empty())
    o_.metrics = {{"loss", [loss = loss_](const Tensor& prediction, const Tensor& target) {
                     return double{loss(prediction, target).item()};
                   }}};
  require<DataError>(train_->size() > 0, o_.name, ": there is nothing to train on.");
}

std::function<Tensor()> Supervised::ghost_loss(std::int64_t samples) {
  const SampleReader& r = reader();
  // The host looks at labels.
  return [this, x = Tensor::empty(r.x.batch(samples), r.x_type, kGhost),
          y = Tensor::zeros(r.y.batch(samples), r.y_type)] { return loss_((*model_)(x), y); };
}

EvalSums Supervised::evaluate(const Stop& stop) {
  EvalSums sums;
  sums.metrics.resize(o_.metrics.size());
  if (!test_) return sums;
  test(reader_of(test_, ~o_.seed), test_->size(), o_.eval_batch, /*drop_left_out=*/false, stop,
       [&](const Batch& batch) {
         const Tensor prediction = (*model_)(batch.x);
         const auto n = static_cast<double>(batch.samples);
         sums.samples += n;
         sums.loss += n * double{loss_(prediction, batch.y).item()};
         for (std::size_t i = 0; i < o_.metrics.size(); ++i)
           sums.metrics[i] += n * o_.metrics[i].metric(prediction, batch.y);
       });
  return sums;
}

std::vector<std::string> Supervised::metrics() const {
  std::vector<std::string> names;
  for (const Named& m : o_.metrics) names.push_back(m.name);
  return names;
}

std::string Supervised::fingerprint() const {
  return concat("data=", o_.name, "\ntrain=", train_->size(), "\ntest=", test_ ? test_->size() : 0,
                "\ncontent of the data=", content_, "\nbatch=", o_.batch, "\nshuffle=", o_.shuffle,
                "\ndata seed=", o_.seed);
}

void Supervised::describe(RunInfo& info) const {
  info.unit = "samples";
  info.data = o_.name, info.train_samples = train_->size(), info.test_samples = test_ ? test_->size() : 0;
}

}  // namespace laconic
