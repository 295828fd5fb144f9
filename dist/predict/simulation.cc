#include "dist/predict/simulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/base/random.h"
#include "dist/server/control.h"
#include "dist/server/server.h"

namespace laconic::dist {
namespace {

/// Something that the compute thread does beside computing, `at` seconds after its layer has begun.
struct Moment {
  double at;
  Parameter* parameter;
  Rows rows;
};

void require_times(std::initializer_list<double> milliseconds, const std::string& of) {
  constexpr double kMost = 1e9;  // a few days: virtual time counts in nanoseconds
  for (const double ms : milliseconds)
    require<DataError>(ms >= 0 && ms <= kMost, "simulate: ", of, " takes ", ms,
                       " ms (`compute`). Times lie between 0 and ", kMost, " ms.");
}

/// A rank's means to serve, as ServerHalf of a training.
class SimulatedServer {
 public:
  SimulatedServer(const Method& method, const SimulatedTraining& training, const std::vector<int>& owner, int server)
      : shard_(training.plan, training.parameters, owner, server, kGhost) {
    ServerSide side{.facts = training.facts, .codec = training.plan.codec, .shard = shard_};
    if (!method.traits().workers_update)
      side.update = [](Parameter& p, Rows, const StepContext&) {
        GhostWork::tell(Work::updating, static_cast<std::size_t>(p.info.elements));
      };
    server_ = method.server(std::move(side));
  }
  ParameterServer& operator*() { return *server_; }

 private:
  Shard shard_;
  std::unique_ptr<ParameterServer> server_;
};

/// A dedicated server, from the first command to the last.
void serve(const Method& method, const SimulatedTraining& training, VirtualEngine& engine) {
  const int workers = training.facts.workers;
  SimulatedServer server(method, training, servers_of(training.plan, training.facts.servers), engine.rank() - workers);
  ServerControl control(engine, workers);
  Rounds rounds(engine, *server, static_cast<int>(training.plan.buckets.size()));
  for (Command command = control.next(); command.kind != Command::Kind::end; command = control.next())
    rounds.begin({.step = command.step, .lr = command.lr, .gradient_scale = command.scale});
  rounds.wait();
}

/// The compute thread of one worker.
class Simulation {
 public:
  Simulation(const Method& method, const SimulatedTraining& training, VirtualEngine& engine)
      : engine_(engine),
        training_(training),
        times_(training.times.layers),
        arena_(twins_of(training.parameters, kGhost), kGhost) {
    const TrainingFacts& facts = training.facts;
    WorkerSide side{.facts = facts, .arena = arena_, .engine = engine_, .plan = training.plan};
    side.update = [this](Parameter& p, Rows rows, const StepContext&) {
      compute(update_seconds_.at(&p) * static_cast<double>(rows.count) / static_cast<double>(p.all_rows().count));
    };
    if (facts.momentum != 0) side.velocity = arena_.make_state();
    if (method.traits().servers) {
      side.server_rank = servers_of(training.plan, facts.servers > 0 ? facts.servers : facts.workers);
      if (facts.servers > 0) {
        side.control = &control_.emplace(engine, facts.workers);
      } else {
        server_ = std::make_unique<SimulatedServer>(method, training, side.server_rank, engine.rank());
        side.own = &**server_;
      }
      for (int& rank : side.server_rank) rank += facts.servers > 0 ? facts.workers : 0;
    }
    find_moments(method.traits().workers_update);
    strategy_ = method.worker(std::move(side));
  }

  void step() {
    ++steps_;
    factor_ = 1 + training_.straggling * drawn_delay();
    strategy_->begin_step({.step = kPastWarmUp + steps_});
    for (std::size_t l = 0; l < times_.size(); ++l)
      pass(times_[l].forward_ms, needed_[l], [&](const Moment& m) { strategy_->before_forward(*m.parameter, m.rows); });
    for (std::size_t l = times_.size(); l-- > 0;)
      pass(times_[l].backward_ms, finished_[l],
           [&](const Moment& m) { strategy_->gradient_ready(*m.parameter, m.rows); });
    strategy_->end_step();
  }
  void end() {
    strategy_->flush();
    if (control_) control_->tell({.kind = Command::Kind::end});
    engine_.drain();
  }
  double compute_seconds() const { return compute_seconds_; }

 private:
  static constexpr std::int64_t kPastWarmUp = 1'000'000'000;  // steps: no method's first epochs

  void compute(double seconds) { engine_.compute(factor_ * seconds); }
  /// Draws from an exponential distribution with a mean of 1, for this rank and step.
  double drawn_delay() const {
    if (training_.straggling == 0) return 0;
    Random random(training_.facts.seed, Purpose::straggling, static_cast<std::uint64_t>(engine_.rank()),
                  static_cast<std::uint64_t>(steps_));
    return -std::log1p(-static_cast<double>(random.uniform()));
  }

  template <class F>
  void pass(double milliseconds, const std::vector<Moment>& moments, F happens) {
    double done = 0;
    for (const Moment& m : moments) {
      compute(m.at - done);
      done = m.at;
      happens(m);
    }
    compute(std::max(0.0, 1e-3 * milliseconds - done));
  }

  /// updates : the time that they take is the worker's
  void find_moments(bool updates) {
    std::map<std::string, Parameter*> parameters;
    for (const auto& p : arena_.parameters()) parameters[p->info.name] = p.get();
    needed_.resize(times_.size()), finished_.resize(times_.size());
    for (std::size_t l = 0; l < times_.size(); ++l) {
      const LayerTimes::Layer& layer = times_[l];
      require_times({layer.forward_ms, layer.backward_ms}, layer.name);
      compute_seconds_ += 1e-3 * (layer.forward_ms + layer.backward_ms);
      for (const LayerTimes::Parameter& of : layer.parameters) {
        const auto found = parameters.find(of.name);
        require<DataError>(found != parameters.end() && of.elements == found->second->info.elements,
                           "simulate: the times are of a parameter ", of.name, " of ", of.elements,
                           " elements, which the model does not have (`compute`): measure this model");
        require_times({of.ready_ms, of.update_ms}, of.name);
        Parameter& p = *found->second;
        parameters.erase(found);
        update_seconds_[&p] = 1e-3 * of.update_ms;
        if (updates) compute_seconds_ += 1e-3 * of.update_ms;
        const Rows all = p.all_rows();
        const std::int64_t rows = p.chunk_rows() > 0 ? p.chunk_rows() : all.count;
        for (std::int64_t first = 0; first < all.count; first += rows) {
          const Rows chunk{first, std::min(rows, all.count - first)};
          const auto share = [&](std::int64_t row) {
            return static_cast<double>(row) / static_cast<double>(all.count);
          };
          needed_[l].push_back({1e-3 * layer.forward_ms * share(first), &p, chunk});
          finished_[l].push_back({1e-3 * of.ready_ms * share(first + chunk.count), &p, chunk});
        }
      }
      for (auto* moments : {&needed_[l], &finished_[l]})
        std::stable_sort(moments->begin(), moments->end(),
                         [](const Moment& a, const Moment& b) { return a.at < b.at; });
    }
    require<DataError>(parameters.empty(), "simulate: there is no time for parameter ",
                       parameters.empty() ? "" : parameters.begin()->first,
                       " of the model (`compute`): measure this model");
  }

  VirtualEngine& engine_;
  const SimulatedTraining& training_;
  const std::vector<LayerTimes::Layer>& times_;
  ParameterArena arena_;
  std::optional<ServerControl> control_;     // of dedicated servers
  std::unique_ptr<SimulatedServer> server_;  // of a worker that serves too
  std::unique_ptr<Strategy> strategy_;
  std::map<const Parameter*, double> update_seconds_;
  std::vector<std::vector<Moment>> needed_, finished_;  // by layer
  double compute_seconds_ = 0, factor_ = 1;
  std::int64_t steps_ = 0;
};

}  // namespace

bool is_alike(const SimulatedTraining& training, const VirtualNetwork& network) {
  const LinkOptions& links = network.links;
  if (!links.of.empty() || links.per_host > 0 || links.all.jitter.count() > 0 || training.straggling > 0) return false;
  if (training.method && (training.method->traits().servers || !training.method->traits().alike)) return false;
  const std::vector<Bucket>& buckets = training.plan.buckets;
  return std::all_of(buckets.begin(), buckets.end(), [&](const Bucket& b) {
    const auto alike = allreduce_named(b.allreduce).kind.alike;
    return alike != nullptr && alike(network.ranks);
  });
}

void require_on_ghosts(const Method& method) {
  if (!method.traits().on_ghosts) {
    std::string others;
    for (const std::string& name : methods().names())
      if (methods().make(name)->traits().on_ghosts) others += (others.empty() ? "" : ", ") + name;
    throw UsageError(concat("what `sync` ", method.name(),
                            " sends depends on the gradients' values, and a simulation has none (`sync`): take one of ",
                            others));
  }
  constexpr std::int64_t kMostSteps = 10'000;
  require<UsageError>(method.traits().period <= kMostSteps, "a step's mean is over ", method.traits().period,
                      " steps, of which a simulation goes through at most ", kMostSteps,
                      " (`every`): give a smaller one");
}

SimulatedStep simulate_step(const SimulatedTraining& training, const VirtualNetwork& network) {
  constexpr std::int64_t kWarmUpSteps = 4, kStepsOfShares = 200;  // with measured shares each layer has another period
  constexpr double kEqual = 1e-4;
  const std::shared_ptr<const Method> method = training.method ? training.method : methods().make("allreduce");
  require_on_ghosts(*method);
  require<UsageError>(network.ranks == training.facts.workers + training.facts.servers, "simulate: a training of ",
                      training.facts.workers, " workers and ", training.facts.servers, " servers on a network of ",
                      network.ranks, " ranks. Give it so many.");
  SimulatedStep step;
  run_in_virtual_time(network, [&](VirtualEngine& engine) {
    if (engine.rank() >= training.facts.workers) return serve(*method, training, engine);
    Simulation simulation(*method, training, engine);
    // One rank alone may stop as soon as steps are equal.
    const bool alone = network.mirrored || network.ranks == 1;
    const bool shares = !training.facts.layer_shares.empty();
    const std::int64_t period = shares ? kStepsOfShares : method->traits().period;
    const auto periods_of = [period](std::int64_t steps) { return (steps + period - 1) / period; };
    double took = 0;
    for (std::int64_t i = 0; i < periods_of(kWarmUpSteps); ++i) {
      const double began = engine.now(), before = std::exchange(took, 0);
      for (std::int64_t s = 0; s < period; ++s) simulation.step();
      took = engine.now() - began;
      if (alone && i > 0 && std::abs(took - before) <= kEqual * took) break;
    }
    const double began = engine.now();
    const EngineCounters before = engine.counters();
    const std::int64_t steps = period * periods_of(alone ? 1 : training.straggling > 0 ? 30 : 5);
    for (std::int64_t i = 0; i < steps; ++i) simulation.step();
    if (engine.rank() == 0) {
      const EngineCounters after = engine.counters();
      const auto all = static_cast<double>(steps);
      step = {(engine.now() - began) / all, simulation.compute_seconds(),
              (after.exposed_seconds - before.exposed_seconds) / all,
              static_cast<double>(after.sent.bytes - before.sent.bytes) / all};
    }
    simulation.end();
  });
  return step;
}

}  // namespace laconic::dist
