#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "apps/common/machine.h"
#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/text.h"
#include "apps/launch/mpirun.h"
#include "apps/look/json_log.h"
#include "apps/look/trace_file.h"
#include "apps/main.h"
#include "apps/training/device_options.h"
#include "apps/training/interrupts.h"
#include "apps/training/outputs.h"
#include "apps/training/progress.h"
#include "apps/training/task.h"
#include "core/base/clock.h"
#include "dist/collective/meeting.h"
#include "dist/engine/busy.h"
#include "dist/trainer/checkpoint.h"
#include "dist/trainer/report.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/trainer.h"

namespace laconic {
namespace {

/// The network that is emulated, if one is.
std::optional<dist::LinkOptions> emulated_link(const TrainOptions& o) {
  return o.link ? std::optional(o.network()) : std::nullopt;
}

/// The slowest of the workers' links. Who shares a host's port has no link of its own.
std::optional<dist::LinkSpec> slowest_link(const TrainOptions& o) {
  if (!o.link || o.per_host > 0) return std::nullopt;
  dist::LinkSpec slowest = *o.link;
  for (const auto& [rank, link] : o.link_of) {
    slowest.bits_per_second = std::min(slowest.bits_per_second, link.bits_per_second);
    slowest.latency = std::max(slowest.latency, link.latency);
  }
  return slowest;
}

TrainerOptions trainer_options(const TrainOptions& o, const dist::Worker& worker) {
  TrainerOptions t = trainer_options(o);
  const int shared = default_threads(worker);  // on all ranks, whatever one was told
  t.threads = o.threads > 0 ? o.threads : shared;
  static const std::uint64_t memory = memory_available();  // before any of it is taken
  if (t.device == kCpu && !o.dry_run && !o.eval_only) t.memory = memory;
  t.describes_only = o.dry_run;
  t.calibration.here = calibrated_here(emulated_link(o));
  t.stop_requested = [] { return interrupt_came(); };
  t.count_gradients = !o.report.empty() || t.ledger_every > 0;
  return t;
}

/// Writes what there is of a trace now and then, so that a run that is killed leaves one; under MPI rank 0's part.
class TraceKeeper final : public Observer {
 public:
  TraceKeeper(Trace& trace, std::string path) : trace_(trace), path_(std::move(path)) {}
  void on_step(const StepReport&) override {
    const auto begin = Clock::now();
    if (begin < next_) return;
    trace_.write(path_, true);
    const auto end = Clock::now();
    next_ = end + std::max<Clock::duration>(kEvery, 20 * (end - begin));  // it costs a twentieth of the time at most
  }

 private:
  static constexpr std::chrono::seconds kEvery{60};
  Trace& trace_;
  const std::string path_;
  Clock::time_point next_ = Clock::now() + kEvery;
};

/// Under MPI the traces of all ranks are brought together in one file.
void write_trace(Trace& trace, dist::Worker& worker, const std::string& path) {
  worker.engine.set_trace(nullptr);
  if (dist::ranks_under_mpirun() == 0) {
    meet(worker.engine, "meeting before the trace is written", "");
    if (worker.rank == 0) trace.write(path);
    return;
  }
  const dist::Busy busy(dist::Busy::With::files, "writes the trace", [&path] { return path; });
  std::vector<std::string> all;
  const std::string mine = trace.json();
  worker.engine.run("gathering of traces",
                    [&](dist::Communicator& comm) { return dist::gather_blobs(comm, mine, all); });
  if (worker.rank == 0) write_merged_traces(all, path);
}

/// What the emulated network was, and whether it was what limited the run.
void print_link(const TrainOptions& o, const dist::LinkUse& use) {
  if (!o.quiet)
    fmt::print("link: {}{} (emulated), {} messages, {:.1f} % of them late by more than 2 ms\n", o.link->to_string(),
               o.link_between ? "; between hosts " + o.link_between->to_string() : "", use.deliveries,
               100 * use.late_share());
  if (use.late_share() > 0.05)
    fmt::print(stderr,
               "laconic: warning: {:.0f} % of the messages were taken more than 2 ms after the emulated link had "
               "delivered them: this machine "
               "was the limit, not the link. Use fewer --workers, less --threads, or a slower --link.\n",
               100 * use.late_share());
}

/// Whether an interrupt has come to any rank: all of them learn the same.
bool interrupt_came_to_any(dist::Worker& worker) {
  const auto all = meet(worker.engine, "whether to go on with the next seed", interrupt_came() ? "came" : "");
  return std::ranges::any_of(all, [](const std::string& rank) { return !rank.empty(); });
}

/// Tells how much of what travels is the plan's: all of it, or a part; or that nothing travels.
const char* travels(const dist::Method::Traits& method) {
  return !method.joins ? "nothing" : method.plan_is_all ? "plan" : "more";
}

/// `interrupted`: set, on all ranks, where an interrupt has come and further runs were to follow.
RunSummary train_once(const TrainOptions& o, Task& task, Observers& observers, std::atomic<bool>& interrupted) {
  const int ranks = dist::ranks_under_mpirun();
  Trace trace;
  if (!o.trace.empty()) observers.add(std::make_unique<TraceKeeper>(trace, o.trace));
  RunSummary summary;
  dist::WorldOptions world{
      .workers = o.workers.value_or(ranks > 0 ? 0 : 1), .servers = o.servers.value_or(0), .timeout_seconds = o.timeout};
  world.type_of_service = o.type_of_service;
  world.link = emulated_link(o);
  /// Returns rank 0's workload, where it was trained or evaluated.
  const auto train = [&](dist::Worker& worker) -> std::unique_ptr<Workload> {
    TrainerOptions options = trainer_options(o, worker);
    if (!o.trace.empty()) {
      options.trace = &trace;
      trace.row(worker.rank, "compute");  // the upper line
      worker.engine.set_trace(&trace.row(worker.rank, "communication"));
    }
    if (worker.serves()) {
      if (ranks > 0) end_in_order(!o.dry_run);
      serve(worker, *o.method, options);
      if (!o.trace.empty() && !o.dry_run && !o.eval_only) write_trace(trace, worker, o.trace);
      return nullptr;
    }
    std::unique_ptr<Workload> workload;
    {
      const dist::Busy busy(dist::Busy::With::files, "reads its data", [&o] { return o.data; });
      workload = task.workload(o, worker);
    }
    end_in_order(!o.dry_run);  // before ranks meet: one that a signal ended would take along the others' first steps
    static const std::uint64_t taken = memory_taken();  // of all workers that are threads before one begins
    options.memory_taken = taken;
    Trainer trainer(worker, *workload, o.method, options, &observers);
    if (o.dry_run) {
      if (worker.rank == 0) fmt::print("{}", trainer.description());
      if (worker.rank == 0 && o.json)
        fmt::print("{}\n", to_json({.plan = trainer.plan().json(),
                                    .travels = travels(trainer.method().traits()),
                                    .computing = o.computing,
                                    .servers = worker.engine.size() - worker.size,
                                    .seed = o.trainer.seed,
                                    .link = slowest_link(o),
                                    .device = o.device,
                                    .precision = o.precision},
                                   trainer.info()));
      return nullptr;
    }
    if (o.eval_only) {
      if (worker.rank == 0) observers.on_start(trainer.info());
      const EvalReport report = trainer.evaluate();
      const std::optional<EvalReport> test = trainer.evaluate_at_the_end();
      if (worker.rank == 0) summary.last_eval = report, summary.test = test, summary.steps = trainer.step();
    } else {
      if (worker.rank == 0) {
        const dist::Busy busy(dist::Busy::With::files, "writes to its folder", [&o] { return o.trainer.save; });
        task.begin(o);
      }
      const RunSummary done = trainer.run();
      if (worker.rank == 0) summary = done;
      if (!o.trace.empty()) write_trace(trace, worker, o.trace);
    }
    return worker.rank == 0 ? std::move(workload) : nullptr;
  };
  const dist::WorldReport report = dist::run_workers(world, [&](dist::Worker& worker) {
    if (const std::unique_ptr<Workload> trained = train(worker)) {
      bool cut_short = false;
      const dist::Busy busy(dist::Busy::With::work, "writes what was asked for at the end");
      task.finish(o, *trained, [&] { return cut_short = interrupt_came(); });
      if (cut_short && summary.stopped.empty()) summary.stopped = "interrupted";
    }
    if (o.repeat > 1 && interrupt_came_to_any(worker)) interrupted = true;
  });
  if (o.link && !o.dry_run) {
    print_link(o, report.link);
    summary.link_late_share = report.link.late_share();
  }
  return summary;
}

void print_qualities(const std::vector<Quality>& results) {
  std::vector<double> values;
  for (const Quality& q : results) values.push_back(q.value);
  std::optional<double> mean, deviation;
  mean_and_deviation(values, mean, deviation);
  fmt::print("{} over {} seeds: {:.2f}{} +- {:.2f}\n", results[0].what, results.size(), *mean, results[0].unit,
             deviation.value_or(0));
}

/// The options of run number `run`, with a seed and outputs of its own.
TrainOptions options_of(const TrainOptions& options, int run) {
  TrainOptions o = options;
  o.trainer.seed += static_cast<std::uint64_t>(run);
  if (options.repeat > 1)
    for (std::string* path :
         {&o.trainer.save, &o.log, &o.trace, &o.report, &o.tensorboard, &o.trainer.dump_gradients, &o.export_path})
      if (!path->empty()) *path = with_seed(*path, o.trainer.seed);
  return o;
}

/// Trains (or evaluates) as the options say. Returns the exit code: 0, or 128 and the number of the signal that cut the
/// training short, after all has been saved (under mpirun rank 0 alone; the others 0). Throws Error.
int run_training(const TrainOptions& options, Task& task) {
  if (!options.alone) refuse_foreign_launcher();
  if (!options.eval_only) listen_to_interrupts();  // else there is nothing to save, and a signal ends it
  set_matmul_precision(checked_precision(options.precision, options.device, "--precision"));
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool speaks = !rank || std::string(rank) == "0";
  const TrainerOptions& all = options.trainer;
  if (speaks && options.repeat > 1 && !all.save.empty() && !all.overwrite && !options.resume && !options.eval_only)
    for (int run = 0; run < options.repeat; ++run)  // before hours of training with other seeds
      CheckpointStore::require_nothing_saved(options_of(options, run).trainer.save);
  std::vector<Quality> results;
  std::atomic<bool> interrupted = false;
  bool stopped = false;
  for (int run = 0; run < options.repeat && !stopped; ++run) {
    const TrainOptions o = options_of(options, run);
    Outputs outputs(o, speaks);
    const RunSummary summary = train_once(o, task, outputs.observers(), interrupted);
    stopped = !summary.stopped.empty() || (interrupted && run + 1 < options.repeat);
    if (summary.test || summary.last_eval) results.push_back(quality(summary));
    outputs.finish(summary);
  }
  if (speaks && options.repeat > 1 && !(options.quiet && options.json) && !results.empty()) print_qualities(results);
  // A rank that leaves with another code than 0 lets mpirun end the others, so one alone does.
  return stopped && speaks ? 128 + interrupting_signal() : 0;
}

class OwnTask final : public Task {
 public:
  explicit OwnTask(const Program& program) : make_(program.task) {}
  std::unique_ptr<Workload> workload(const TrainOptions& o, const dist::Worker& worker) override {
    OwnTaskOptions own;
    own.batch = o.batch, own.shuffle = o.images.shuffle, own.data_threads = o.images.data_threads;
    own.seed = o.trainer.seed, own.data = o.data;
    std::unique_ptr<Workload> workload = make_(own, worker);
    require<Error>(workload != nullptr, "the program's own task is null.");
    return workload;
  }

 private:
  decltype(Program::task) make_;
};

std::unique_ptr<Task> make_task(const Program& program, const TrainOptions& options) {
  if (program.task) return std::make_unique<OwnTask>(program);
  if (program.reads == Program::Reads::images) return make_image_task(program, options);
  if (program.reads == Program::Reads::photographs) return make_photo_task(options);
  return make_language_task(options);
}

}  // namespace

int run_program(int argc, char** argv, const Program& program) {
  return run_main([&] {
    const std::optional<TrainOptions> options = parse_options(argc, argv, program);
    if (!options) return 0;
    return options->predict.empty() ? run_training(*options, *make_task(program, *options))
                                    : predict(program, *options);
  });
}

}  // namespace laconic
