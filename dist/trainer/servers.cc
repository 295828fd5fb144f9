#include "dist/trainer/servers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "core/host_copy.h"
#include "dist/collective/meeting.h"
#include "dist/trainer/checkpointing.h"
#include "dist/trainer/step_figures.h"
#include "dist/world.h"

namespace laconic {

std::uint64_t checksum(Slice<const float> values, std::uint64_t hash) {
  for (const float v : HostCopy<float>(values)) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

ServerHalf::ServerHalf(const dist::Method& method, const dist::TrainingFacts& facts, const TrainerOptions& o,
                       const dist::Plan& plan, const std::vector<ParameterInfo>& all, const std::vector<int>& owner,
                       int server)
    : before_(bytes_made_here()),
      shard_(std::make_unique<dist::Shard>(plan, all, owner, server, o.device)),
      optimizer_(method.traits().workers_update ? nullptr : make_optimizer(shard_->arena(), o.optimizer)) {
  dist::ServerSide side{.facts = facts, .codec = plan.codec, .shard = *shard_};
  if (optimizer_)
    side.update = [this, limit = facts.clip_value](Parameter& p, Rows rows, const dist::StepContext& context) {
      if (limit > 0) clip_value(p.grad(), limit / context.gradient_scale);
      optimizer_->update(p, rows, context.lr, context.gradient_scale);
    };
  if (facts.clip_norm > 0) {
    dist::JointNorm::Options norm{.buckets = plan.buckets.size(), .own = shard_->units().size()};
    norm.servers.resize(static_cast<std::size_t>(facts.servers > 0 ? facts.servers : facts.workers));
    std::iota(norm.servers.begin(), norm.servers.end(), facts.servers > 0 ? facts.workers : 0);
    norm.limit = [most = facts.clip_norm](double scale, double squares) {
      return scale * clip_scale(scale * scale * squares, most);
    };
    side.norm = std::make_shared<dist::JointNorm>(std::move(norm));
  }
  server_ = method.server(std::move(side));
  bytes_ = static_cast<double>(bytes_made_here() - before_);
}

void ServerHalf::save(StateDict& state) const {
  server_->save(state);
  if (optimizer_) state.save("optimizer/", *optimizer_);
}

void ServerHalf::load(const StateDict& state) {
  server_->load(state);
  if (optimizer_) optimizer_->load(state.part("optimizer/"));
}

void ServerHalf::rejoin(const std::string& checkpoint, const Manifest& manifest) {
  if (!optimizer_) return;
  StateDict state;
  optimizer_->save(state);
  std::map<std::string, Tensor> joined;
  for (const auto& [name, tensor] : state) {
    joined[name] = Tensor::zeros(tensor.shape(), tensor.dtype());
    state.set(name, joined[name]);
  }
  std::int64_t missing = 0;
  for (const dist::Shard::Unit& unit : shard_->units())
    for (const Parameter* p : unit.parameters) missing += p->info.elements;
  const auto take = [&](const StateDict& theirs, const dist::Place& place) {
    for (const dist::Shard::Unit& unit : shard_->units())
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        const ParameterInfo& info = unit.parameters[i]->info;
        const std::int64_t begin = std::max(place.workers_offset, unit.workers_offset[i]);
        const std::int64_t end =
            std::min(place.workers_offset + place.elements, unit.workers_offset[i] + info.elements);
        if (begin >= end) continue;
        missing -= end - begin;
        for (auto& [name, to] : joined) {
          const Tensor& from = theirs.at(name);
          const bool counts = name == "updates";  // one for each parameter
          const std::int64_t there = counts ? place.index : place.offset + begin - place.workers_offset;
          const std::int64_t here = counts ? info.index : info.offset + begin - unit.workers_offset[i];
          const std::int64_t n = counts ? 1 : end - begin;
          require<DataError>(from.dtype() == to.dtype() && from.shape().rank() == 1 && there + n <= from.elements(),
                             "resume: the state of a server in ", checkpoint, " is damaged. Use an older checkpoint.");
          to.range(here, n).copy_from(from.range(there, n));
        }
      }
  };
  CheckpointStore::each_server(checkpoint, manifest, [&](const StateDict& server) {
    const StateDict theirs = server.part("optimizer/");
    for (const dist::Place& place : dist::places_in(server)) take(theirs, place);
  });
  require<DataError>(missing == 0, "resume: the servers in ", checkpoint, " do not know the whole model. Use an older ",
                     "checkpoint.");
  optimizer_->load(state);
}

void Servers::take_values(const std::string& checkpoint, const Manifest& manifest) const {
  std::int64_t missing = arena_.elements();
  CheckpointStore::each_server(checkpoint, manifest, [&](const StateDict& server) {
    for (const dist::Place& place : dist::places_in(server)) {
      require<DataError>(place.workers_offset + place.elements <= arena_.values().elements(), "resume: a server in ",
                         checkpoint, " has parameters that this model has not. Use an older checkpoint.");
      arena_.values().range(place.workers_offset, place.elements).copy_from(place.values.view({-1}));
      missing -= place.elements;
    }
  });
  require<DataError>(missing == 0, "resume: the servers in ", checkpoint, " do not hold the whole model. Use an older ",
                     "checkpoint.");
  arena_.changed();
}

void Servers::join(dist::WorkerSide& side, const dist::Method& method, const TrainerOptions& options) {
  const int dedicated = worker_.servers(), N = worker_.size;
  server_rank_ = dist::servers_of(plan_, dedicated > 0 ? dedicated : N);
  const std::vector<ParameterInfo> parameters = dist::infos_of(arena_.parameters());
  if (dedicated == 0) {
    half_ = std::make_unique<ServerHalf>(method, side.facts, options, plan_, parameters, server_rank_, worker_.rank);
    side.own = &half_->server();
  } else {
    for (int& rank : server_rank_) rank += N;
    side.control = &*control_;
    meet(worker_.engine, "telling the servers of the model", worker_.rank == 0 ? dist::to_json(parameters) : "");
  }
  side.server_rank = server_rank_;
}

/// It is made on ghosts: the largest bucket's server is first in need of memory (servers_of).
double Servers::dedicated_bytes(const dist::Method& method, const dist::TrainingFacts& facts,
                                TrainerOptions options) const {
  const int servers = worker_.servers();
  if (servers == 0) return 0;
  options.device = kGhost;
  const std::vector<int> owner = dist::servers_of(plan_, servers);
  const std::vector<ParameterInfo> parameters = dist::infos_of(arena_.parameters());
  double most = 0;
  for (int server = 0; server < servers; ++server) {
    const ServerHalf half(method, facts, options, plan_, parameters, owner, server);
    most = std::max(most, half.bytes() + half.message_bytes());
  }
  return most;
}

void Servers::give_values() const {
  if (half_)
    for (const dist::Shard::Unit& unit : half_->shard().units())
      half_->shard().arena().values().range(unit.offset, unit.elements).copy_from(values(unit.bucket));
  if (!control_ || worker_.rank != 0) return;
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const std::vector<int> server{server_rank_[b]};
    const Slice<float> x = values(b).slice();
    worker_.engine.run(
        "sending a server its values",
        [&](dist::Communicator& comm) { return dist::send_floats(comm, server, x, dist::Leg{}); }, x.device());
  }
}

void Servers::audit(std::int64_t step) {
  if (half_)
    for (const dist::Shard::Unit& unit : half_->shard().units())
      require<Error>(checksum(half_->shard().values(unit)) == checksum(values(unit.bucket).slice()),
                     "audit: after step ", step, " this worker's ", unit.name,
                     " is not its server's. This is a defect.");
  if (!control_) return;
  tell({.kind = dist::Command::Kind::audit});
  const std::vector<std::string> theirs = meet(worker_.engine, "audit of the servers", "");
  for (int rank = worker_.size; rank < worker_.engine.size(); ++rank) {
    std::uint64_t hash = checksum({});
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b)
      if (server_rank_[b] == rank) hash = checksum(values(b).slice(), hash);
    require<CommError>(theirs[static_cast<std::size_t>(rank)] == concat(hash), "audit: after step ", step, " rank ",
                       rank, " serves other parameters than the workers hold. This is a defect.");
  }
}

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
