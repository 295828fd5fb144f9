#include <algorithm>
#include <cmath>

#include "apps/bench/harness.h"
#include "apps/bench/union_traffic.h"
#include "apps/common/machine.h"
#include "core/base/error.h"
#include "data/cifar.h"
#include "data/mnist.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/method/redsync/method.h"
#include "dist/trainer/image_classification.h"
#include "dist/trainer/trainer.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

struct UnionBenchOptions {
  std::string model = "hdc", data = "synthetic:8192,100";
  std::vector<int> workers{2, 4, 8, 16};
  std::int64_t batch = 16, steps = 100;
  double lr = 0.02;
  dist::SparseOptions sparse{};
};

using Ledgers = std::vector<std::vector<dist::LedgerRow>>;

/// The ledgers of all ranks after a short training.
Ledgers train(const UnionBenchOptions& o, const std::shared_ptr<const ImageDataset>& data, int workers, bool split) {
  constexpr std::int64_t kMeasuredSteps = 20;
  Ledgers ledgers(static_cast<std::size_t>(workers));
  dist::run_workers({.workers = workers}, [&](dist::Worker& worker) {
    ImageClassification task(make_model(o.model, {.classes = data->classes}), data, worker.rank, worker.size,
                             {.batch = o.batch});
    TrainerOptions options{.model_name = o.model, .epochs = o.steps, .steps = o.steps, .lr = o.lr};
    options.optimizer = {.momentum = 0.9};
    const auto method = std::make_shared<dist::SparseExchange>(*dist::sparse_method("redsync"));
    method->options = o.sparse;
    method->options.split = split;
    options.ledger_every = std::max<std::int64_t>(1, o.steps / kMeasuredSteps);
    ledgers[static_cast<std::size_t>(worker.rank)] = Trainer(worker, task, method, options).run().ledger;
  });
  return ledgers;
}

bool chosen(const dist::LedgerRow& row) { return row.exchanges > 0; }

/// Bytes of a step and of a rank.
double bytes_sent(const Ledgers& ledgers) {
  double bytes = 0;
  for (const auto& ledger : ledgers)
    for (const dist::LedgerRow& row : ledger)
      if (chosen(row)) bytes += row.bytes / static_cast<double>(row.exchanges);
  return bytes / std::max<double>(1, static_cast<double>(ledgers.size()));
}

Cells figures(const UnionTraffic& t) {
  const double percent = t.dense_bytes > 0 ? 100 / t.dense_bytes : 0;
  return {{"workers", "workers", t.workers},
          {"", "elements", t.elements},
          {"chosen, %", "density", t.density, "{:.3f}", 100},
          {"union, %", "union_density", t.union_density, "{:.3f}", 100},
          {"independent, %", "independent_union_density", t.independent, "{:.3f}", 100},
          {"allgather", "allgather_bytes", t.allgather_bytes, "{:.0f}"},
          {"split", "split_bytes", t.split_bytes, "{:.0f}"},
          {"dense", "dense_bytes", t.dense_bytes, "{:.0f}"},
          {"allgather / dense, %", "", percent * t.allgather_bytes, "{:.2f}"},
          {"split / dense, %", "", percent * t.split_bytes, "{:.2f}"}};
}

}  // namespace

double independent_union(double density, int workers) { return 1 - std::pow(1 - density, workers); }

UnionTraffic union_traffic(int workers, const Ledgers& gathered, const Ledgers& split) {
  UnionTraffic t;
  t.workers = workers;
  double sent = 0, united = 0, independent = 0;
  for (const auto& ledger : gathered)
    for (const dist::LedgerRow& row : ledger) {
      if (!chosen(row)) continue;
      const auto n = static_cast<double>(row.elements), ranks = static_cast<double>(gathered.size());
      sent += row.sent / ranks;
      if (&ledger != &gathered.front()) continue;  // what follows is the same on all ranks
      t.elements += row.elements;
      united += n * row.union_density;
      independent += n * independent_union(row.sent / n, workers);
    }
  if (t.elements == 0) return t;
  const auto elements = static_cast<double>(t.elements);
  t.density = sent / elements;
  t.union_density = united / elements;
  t.independent = independent / elements;
  t.allgather_bytes = bytes_sent(gathered);
  t.split_bytes = bytes_sent(split);
  t.dense_bytes = dist::ring_allreduce_cost(workers, 4 * elements).bytes;
  return t;
}

std::optional<int> crossing(const std::vector<UnionTraffic>& by_workers) {
  std::optional<int> from;
  for (const UnionTraffic& t : by_workers)
    if (t.split_bytes >= t.allgather_bytes)
      from.reset();
    else if (!from)
      from = t.workers;
  return from;
}

int bench_union(const std::vector<std::string>& arguments) {
  UnionBenchOptions o;
  std::string coding = "raw";
  Bench bench("union",
              "How sparse traffic grows with the number of workers: short trainings with RedSync, workers as threads; "
              "what they choose together, and what a worker sends in a step by either --sparse-reduce and densely.");
  bench.option("--workers", o.workers, "N", "numbers of workers, rising [2,4,8,16]", CLI::Range(1, 64));
  bench.option("--model", o.model, "NAME", "of 28 x 28 grey or 32 x 32 colour images [hdc]");
  bench.option("--data", o.data, "DIR", "as mnist or cifar10 take it [synthetic:8192,100]");
  bench.option("--steps", o.steps, "S", "of each training [100]", CLI::Range(1, 1000000));
  bench.option("--batch", o.batch, "B", "samples per worker [16]", CLI::Range(1, 100000));
  bench.option("--lr", o.lr, "X", "learning rate, with momentum 0.9 [0.02]", number_from_to(1e-9, 1e3));
  bench.option("--density", o.sparse.density, "D", "share to choose [0.001]", number_from_to(1e-9, 1));
  bench.option("--selector", o.sparse.selector, "S", "as --sync redsync takes it [paper]");
  bench.app.add_flag("--qrgc", o.sparse.quantised, "one sign at a time, all as one value");
  bench.option("--index-coding", coding, "C", "raw, delta [raw]", CLI::IsMember({"raw", "delta"}));
  if (const auto done = bench.parse(arguments)) return *done;
  require<UsageError>(std::adjacent_find(o.workers.begin(), o.workers.end(), std::greater_equal<>()) == o.workers.end(),
                      "the numbers of workers must rise (--workers): give them as 2,4,8,16");
  o.sparse.delta = coding == "delta";
  dist::SparseExchange method(*dist::sparse_method("redsync"));
  method.options = o.sparse;
  method.check({});
  const ModelInfo& model = model_info(o.model);
  const auto data =
      std::make_shared<const ImageDataset>(model.input[0] == 1 ? load_mnist(o.data) : load_cifar10(o.data));
  require<UsageError>(model.input == Shape({data->channels, data->height, data->width}), "the model ", model.name,
                      " takes images of ", model.input, ", not those of ", o.data,
                      " (--model, --data): choose what fits");

  bench.say(
      fmt::format("{}\n\n{} on {}, {} steps of {} samples a worker, density {}; parameters of 128 KiB and more; "
                  "bytes that a worker sends in a step",
                  machine(), o.model, data->name, o.steps, o.batch, o.sparse.density));
  ResultTable table(bench.markdown);
  std::vector<UnionTraffic> rows;
  for (const int workers : o.workers) {
    rows.push_back(union_traffic(workers, train(o, data, workers, false), train(o, data, workers, true)));
    require<UsageError>(rows.back().elements > 0, o.model, " has no parameter of 128 KiB (--model): take another");
    table.add(figures(rows.back()));
    bench.show(table);
  }
  const std::optional<int> from = crossing(rows);
  bench.say(
      from ? fmt::format("\n--sparse-reduce split sends less from {} workers on.", *from)
           : fmt::format("\n--sparse-reduce allgather sends no more with {}.", plural(o.workers.back(), "worker")));
  return bench.finish(
      {{"results", table.objects()}, {"split_sends_less_from", from ? Bench::Json(*from) : Bench::Json()}});
}

}  // namespace laconic
