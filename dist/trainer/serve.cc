#include "dist/collective/meeting.h"
#include "dist/trainer/checkpointing.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/step_figures.h"
#include "dist/world.h"

namespace laconic {
namespace {

/// The loop of one dedicated server.
class ServerLoop {
 public:
  /// Takes the engine's slots as the workers do: for commands, buckets, the gradient's length, figures.
  ServerLoop(dist::Worker& worker, ServerHalf& half, Checkpointing& checkpoints, int buckets)
      : engine_(worker.engine),
        half_(half),
        checkpoints_(checkpoints),
        control_(engine_, worker.size),
        rounds_(engine_, half.server(), buckets),
        figures_slot_(engine_.reserve_slots(1)) {}
  ~ServerLoop() {
    if (figures_.valid()) engine_.halt();  // it must not write into figures_of_ any more
  }

  void run(std::uint64_t bytes_before) {
    count_from_here();
    while (true) {
      const dist::Command command = control_.next();
      using Kind = dist::Command::Kind;
      switch (command.kind) {
        case Kind::step:
          rounds_.begin({.step = command.step, .lr = command.lr, .gradient_scale = command.scale});
          continue;  // what it sends belongs to the step
        case Kind::figures:
          figures(command.step);
          continue;
        case Kind::show:
          rounds_.show();
          rounds_.wait();
          break;
        case Kind::audit: {
          std::uint64_t hash = checksum({});
          for (const dist::Shard::Unit& unit : half_.shard().units()) hash = checksum(half_.shard().values(unit), hash);
          meet(engine_, "audit of the servers", concat(hash));
          break;
        }
        case Kind::rest:
          break;
        case Kind::save: {  // this rank's part of Trainer::save
          StateDict state;
          state.save("server/", half_);
          checkpoints_.begin_write(copy_of(state), {.step = command.step});
          break;
        }
        case Kind::saved:
          checkpoints_.finish();
          break;
        case Kind::total: {
          std::vector<double> network{static_cast<double>(engine_.counters().sent.bytes - bytes_before)};
          engine_.run("sum of all bytes",
                      [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(network)); });
          break;
        }
        case Kind::end:
          engine_.wait(std::exchange(figures_, {}));
          return;
      }
      count_from_here();
    }
  }

 private:
  void count_from_here() {
    counted_ = engine_.counters().sent.bytes;
    counted_cpu_ = process_cpu_seconds();
  }

  /// All of the step was handed over: when it has ended, this server's share of its bytes is known.
  void figures(std::int64_t step) {
    rounds_.wait();
    engine_.wait(std::exchange(figures_, {}));  // of the step before
    const std::uint64_t sent = engine_.counters().sent.bytes, down = half_.server().bytes_down();
    checkpoints_.count(figures_of_.files(), std::exchange(figures_at_, step));
    figures_of_.sums.assign(kFigures, 0.0);
    figures_of_.sums[kBytes] = static_cast<double>(sent - std::exchange(counted_, sent));
    figures_of_.sums[kDown] = static_cast<double>(down - std::exchange(seen_down_, down));
    const double cpu = process_cpu_seconds();
    figures_of_.sums[kServerCpuSeconds] = cpu - std::exchange(counted_cpu_, cpu);
    figures_of_.set_file(checkpoints_.written());
    figures_ = submit_figures(engine_, figures_slot_, figures_of_);
  }

  dist::Engine& engine_;
  ServerHalf& half_;
  Checkpointing& checkpoints_;
  dist::ServerControl control_;
  dist::Rounds rounds_;
  const int figures_slot_;
  dist::Ticket figures_;
  SharedFigures figures_of_;
  std::int64_t figures_at_ = 0;
  std::uint64_t counted_ = 0, seen_down_ = 0;
  double counted_cpu_ = 0;  // seconds of this process
};

}  // namespace

void serve(dist::Worker& worker, const dist::Method& method, const TrainerOptions& options) {
  const std::uint64_t bytes_before = worker.engine.counters().sent.bytes;
  const dist::TrainingFacts facts = facts_of(options, worker.size, worker.servers());
  require_sense(options, method, worker.servers());
  method.check(facts);
  dist::check_fingerprint(worker.engine, fingerprint(method, options, worker.servers()) + run_fingerprint(options),
                          true);
  std::optional<dist::Busy> preparing(std::in_place, dist::Busy::With::work, kPrepares);
  Checkpointing checkpoints(worker, options);
  checkpoints.claim("");
  const std::string plan_text = meet(worker.engine, "agreement on the plan", "")[0];
  const auto parameters = dist::parameters_from_json(meet(worker.engine, "telling the servers of the model", "")[0]);
  const dist::Plan plan = dist::Plan::from_json(plan_text, parameters, "the plan of rank 0");
  ServerHalf half(method, facts, options, plan, dist::infos_of(parameters), dist::servers_of(plan, worker.servers()),
                  worker.rank - worker.size);
  ServerLoop loop(worker, half, checkpoints, static_cast<int>(plan.buckets.size()));
  const bool resumed = checkpoints.resumed().has_value(), same_ranks = resumed && checkpoints.same_ranks();
  if (same_ranks) {
    half.load(checkpoints.state().part("server/"));
  } else {
    for (const dist::Shard::Unit& unit : half.shard().units()) {
      const Slice<float> x = half.shard().values(unit);
      worker.engine.run(
          "receiving values", [&](dist::Communicator& comm) { return dist::recv_floats(comm, 0, x, dist::Leg{}); },
          x.device());
    }
    if (resumed) half.rejoin(checkpoints.folder(), *checkpoints.resumed());
  }
  if (resumed) dist::check_fingerprint(worker.engine, concat("resumed after step ", checkpoints.resumed()->step));
  if (!options.describes_only) checkpoints.begin();
  preparing.reset();
  loop.run(bytes_before);
  if (!options.describes_only) checkpoints.end();
}

}  // namespace laconic
