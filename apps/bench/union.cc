#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.h"
#include "apps/bench/union_traffic.h"
#include "apps/machine.h"
#include "apps/subcommand.h"
#include "core/error.h"
#include "data/cifar.h"
#include "data/mnist.h"
#include "dist/method/redsync/method.h"
#include "dist/trainer/image_classification.h"
#include "dist/trainer/trainer.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

struct UnionBenchOptions {
  std::string model = "hdc", data = "synthetic:8192,100", coding = "raw";
  std::vector<int> workers{2, 4, 8, 16};
  std::int64_t batch = 16, steps = 100;
  double lr = 0.02;
  dist::SparseOptions sparse{};
  bool json = false, markdown = false;
};

/// The ledgers of all ranks after a short training.
std::vector<std::vector<dist::LedgerRow>> train(const UnionBenchOptions& o,
                                                const std::shared_ptr<const ImageDataset>& data, int workers,
                                                bool split) {
  constexpr std::int64_t kMeasuredSteps = 20;
  std::vector<std::vector<dist::LedgerRow>> ledgers(static_cast<std::size_t>(workers));
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

nlohmann::json to_json(const UnionTraffic& t) {
  return {{"workers", t.workers},
          {"elements", t.elements},
          {"density", t.density},
          {"union_density", t.union_density},
          {"independent_union_density", t.independent},
          {"allgather_bytes", t.allgather_bytes},
          {"split_bytes", t.split_bytes},
          {"dense_bytes", t.dense_bytes}};
}

void print_head(bool markdown) {
  const char* const columns[] = {"workers",         "chosen, %", "union, %", "independent, %",
                                 "allgather",       "split",     "dense",    "allgather / dense, %",
                                 "split / dense, %"};
  std::string line = markdown ? "|" : "", rule = "|";
  for (const char* column : columns) {
    line += markdown ? fmt::format(" {} |", column) : fmt::format("{:>{}}", column, std::string(column).size() + 3);
    rule += "---|";
  }
  fmt::print("{}\n", line);
  if (markdown) fmt::print("{}\n", rule);
}

void print_row(const UnionTraffic& t, bool markdown) {
  const double percent = t.dense_bytes > 0 ? 100 / t.dense_bytes : 0;
  fmt::print(fmt::runtime(markdown ? "| {} | {:.3f} | {:.3f} | {:.3f} | {:.0f} | {:.0f} | {:.0f} | {:.2f} | {:.2f} |\n"
                                   : "{:>10} {:>11.3f} {:>10.3f} {:>16.3f} {:>11.0f} {:>7.0f} {:>7.0f} {:>22.2f} "
                                     "{:>18.2f}\n"),
             t.workers, 100 * t.density, 100 * t.union_density, 100 * t.independent, t.allgather_bytes, t.split_bytes,
             t.dense_bytes, percent * t.allgather_bytes, percent * t.split_bytes);
  std::fflush(stdout);
}

}  // namespace

int bench_union(const std::vector<std::string>& arguments) {
  UnionBenchOptions o;
  CLI::App app(
      "How sparse traffic grows with the number of workers: short trainings with RedSync, workers as threads; what "
      "they "
      "choose together, and what a worker sends in a step by either --sparse-reduce and densely.",
      "laconic bench union");
  app.add_option("--workers", o.workers, "numbers of workers, rising [2,4,8,16]")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->type_name("N,..");
  app.add_option("--model", o.model, "of 28 x 28 grey or 32 x 32 colour images [hdc]")->type_name("NAME");
  app.add_option("--data", o.data, "as mnist or cifar10 take it [synthetic:8192,100]")->type_name("DIR");
  app.add_option("--steps", o.steps, "of each training [100]")->check(CLI::Range(1, 1000000))->type_name("S");
  app.add_option("--batch", o.batch, "samples per worker [16]")->check(CLI::Range(1, 100000))->type_name("B");
  app.add_option("--lr", o.lr, "learning rate, with momentum 0.9 [0.02]")->check(CLI::PositiveNumber)->type_name("X");
  app.add_option("--density", o.sparse.density, "share to choose [0.001]")
      ->check(CLI::Range(1e-9, 1.0))
      ->type_name("D");
  app.add_option("--selector", o.sparse.selector, "as --sync redsync takes it [paper]")->type_name("S");
  app.add_flag("--qrgc", o.sparse.quantised, "one sign at a time, all as one value");
  app.add_option("--index-coding", o.coding, "raw, delta [raw]")
      ->check(CLI::IsMember({"raw", "delta"}))
      ->type_name("C");
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  require<UsageError>(std::adjacent_find(o.workers.begin(), o.workers.end(), std::greater_equal<>()) == o.workers.end(),
                      "the numbers of workers must rise (--workers): give them as 2,4,8,16");
  o.sparse.delta = o.coding == "delta";
  dist::SparseExchange method(*dist::sparse_method("redsync"));
  method.options = o.sparse;
  method.check({});
  const ModelInfo& model = model_info(o.model);
  const auto data =
      std::make_shared<const ImageDataset>(model.input[0] == 1 ? load_mnist(o.data) : load_cifar10(o.data));
  require<UsageError>(model.input == Shape({data->channels, data->height, data->width}), "the model ", model.name,
                      " takes images of ", model.input, ", not those of ", o.data,
                      " (--model, --data): choose what fits");

  if (!o.json) {
    fmt::print("{}\n\n", machine());
    fmt::print(
        "{} on {}, {} steps of {} samples a worker, density {}; parameters of 128 KiB and more; bytes that a "
        "worker sends in a step\n\n",
        o.model, data->name, o.steps, o.batch, o.sparse.density);
    print_head(o.markdown);
  }
  std::vector<UnionTraffic> rows;
  auto list = nlohmann::json::array();
  for (const int workers : o.workers) {
    rows.push_back(union_traffic(workers, train(o, data, workers, false), train(o, data, workers, true)));
    require<UsageError>(rows.back().elements > 0, o.model, " has no parameter of 128 KiB (--model): take another");
    list.push_back(to_json(rows.back()));
    if (!o.json) print_row(rows.back(), o.markdown);
  }
  const std::optional<int> from = crossing(rows);
  if (o.json) {
    fmt::print(
        "{}\n",
        nlohmann::json{{"results", list}, {"split_sends_less_from", from ? nlohmann::json(*from) : nullptr}}.dump());
  } else if (from) {
    fmt::print("\n--sparse-reduce split sends less from {} workers on.\n", *from);
  } else {
    fmt::print("\n--sparse-reduce allgather sends no more with {} worker{}.\n", o.workers.back(),
               o.workers.back() == 1 ? "" : "s");
  }
  return 0;
}

}  // namespace laconic
