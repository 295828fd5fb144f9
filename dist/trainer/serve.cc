#include "dist/fingerprint.h"
#include "dist/server/control.h"
#include "dist/server/rounds.h"
#include "dist/trainer/internals.h"
#include "dist/trainer/server_half.h"

namespace laconic {
namespace {

/// The loop of one dedicated server.
class ServerLoop {
 public:
  ServerLoop(dist::Worker& worker, const TrainerOptions& options, ServerHalf& half, int first_slot, int buckets)
      : engine_(worker.engine),
        rank_(worker.rank),
        o_(options),
        half_(half),
        rounds_(engine_, half.server(), first_slot, first_slot + buckets),
        control_(engine_, worker.size),
        figures_slot_(engine_.reserve_slots(1)) {}
  ~ServerLoop() {
    if (figures_.valid()) engine_.halt();  // it must not write into sums_ any more
  }

  void run(std::uint64_t bytes_before) {
    count_from_here();
    bool patiently = true;  // until the first step rank 0 may have much to read
    while (true) {
      const dist::Command command = control_.next(patiently);
      patiently = command.kind == dist::Command::Kind::rest || command.kind == dist::Command::Kind::save;
      switch (command.kind) {
        case dist::Command::Kind::step:
          rounds_.begin({.step = command.step, .lr = command.lr, .gradient_scale = command.scale});
          continue;  // what it sends belongs to the step
        case dist::Command::Kind::figures:
          figures();
          continue;
        case dist::Command::Kind::show:
          rounds_.show();
          rounds_.wait();
          break;
        case dist::Command::Kind::audit:
          dist::send_text(engine_, 0, concat(half_.checksum()));
          break;
        case dist::Command::Kind::rest:
          break;
        case dist::Command::Kind::save:
          save(command.step);
          break;
        case dist::Command::Kind::total: {
          std::vector<double> network{static_cast<double>(engine_.counters().sent.bytes - bytes_before)};
          sum_over_all(network);
          break;
        }
        case dist::Command::Kind::end:
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
  void figures() {
    rounds_.wait();
    engine_.wait(std::exchange(figures_, {}));  // of the step before
    const std::uint64_t sent = engine_.counters().sent.bytes, down = half_.server().bytes_down();
    sums_.assign(kFigures, 0.0);
    sums_[kBytes] = static_cast<double>(sent - std::exchange(counted_, sent));
    sums_[kDown] = static_cast<double>(down - std::exchange(seen_down_, down));
    const double cpu = process_cpu_seconds();
    sums_[kServerCpuSeconds] = cpu - std::exchange(counted_cpu_, cpu);
    figures_ =
        engine_.submit({.name = "figures of a step",
                        .slot = figures_slot_,
                        .priority = 1 << 30,
                        .body = [this](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(sums_)); }});
  }

  void sum_over_all(std::vector<double>& x) {
    engine_.run("sum of all bytes", [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(x)); });
  }

  /// This rank's part of Trainer::save.
  void save(std::int64_t step) {
    const CheckpointStore store(o_.save);
    store.prepare(step);
    const std::string run = meet(engine_, "meeting before a checkpoint", "")[0];
    StateDict state;
    half_.save(state);
    const FileSum written = store.write_rank(run, step, rank_, state);
    meet(engine_, "meeting in a checkpoint", written.text());
    meet(engine_, "meeting after a checkpoint", "");
  }

  dist::Engine& engine_;
  const int rank_;
  const TrainerOptions& o_;
  ServerHalf& half_;
  dist::Rounds rounds_;
  dist::ServerControl control_;
  const int figures_slot_;
  dist::Ticket figures_;
  std::vector<double> sums_;
  std::uint64_t counted_ = 0, seen_down_ = 0;
  double counted_cpu_ = 0;  // seconds of this process
};

}  // namespace

void serve(dist::Worker& worker, const dist::Method& method, const TrainerOptions& options) {
  const std::uint64_t bytes_before = worker.engine.counters().sent.bytes;
  const dist::TrainingFacts facts = facts_of(options, worker.size, worker.servers());
  require<UsageError>(method.traits().servers, "`sync` ", method.name(), " has no use for ", worker.servers(),
                      " servers (`servers`): leave them out, or take `sync` ps");
  method.check(facts);
  dist::check_fingerprint(worker.engine, fingerprint(method, options, worker.servers()) + run_fingerprint(options),
                          true);
  const std::optional<Resumed> resumed = choose_checkpoint(worker.engine, options);
  const auto parameters = dist::parameters_from_json(dist::recv_text(worker.engine, 0));
  const dist::Plan plan =
      dist::Plan::from_json(dist::recv_text(worker.engine, 0), parameters, "the plan of rank 0");
  ServerHalf half(method, facts, options, plan, dist::infos_of(parameters), dist::servers_of(plan, worker.servers()),
                  worker.rank - worker.size);
  const int buckets = static_cast<int>(plan.buckets.size());
  ServerLoop loop(worker, options, half, worker.engine.reserve_slots(buckets + 1), buckets);  // one more for the norm
  if (!options.save.empty()) CheckpointStore(options.save).claim(worker.rank, "", worker.size, false);  // can it write?
  if (!resumed) {
    for (const dist::Shard::Unit& unit : half.shard().units())
      dist::recv_floats(worker.engine, 0, half.shard().values(unit));
  } else {
    half.load(CheckpointStore::read_rank(resumed->checkpoint, worker.rank));
    dist::check_fingerprint(worker.engine, concat("resumed after step ", resumed->manifest.step));
  }
  loop.run(bytes_before);
}

}  // namespace laconic
