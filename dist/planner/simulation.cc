#include "dist/planner/simulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace laconic::dist {
namespace {

/// The compute thread does this beside computing, so many seconds after its layer has begun.
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

/// Makes parameters without memory, in the order in which they are registered.
std::vector<std::shared_ptr<Parameter>> ghosts_of(const std::vector<ParameterInfo>& in_arena_order) {
  std::vector<std::shared_ptr<Parameter>> ghosts;
  for (auto info = in_arena_order.rbegin(); info != in_arena_order.rend(); ++info) {
    ghosts.push_back(std::make_shared<Parameter>(info->shape, info->role, kGhost));
    ghosts.back()->info.name = info->name;
    ghosts.back()->info.output = info->output;
  }
  return ghosts;
}

/// The compute thread of one rank.
class Simulation {
 public:
  Simulation(const SimulatedTraining& training, VirtualEngine& engine)
      : engine_(engine),
        times_(training.times.layers),
        arena_(ghosts_of(training.parameters), kGhost),
        plan_(training.plan) {
    facts_.workers = engine.size();
    facts_.overlap = training.overlap;
    facts_.codec_feedback = training.codec_feedback && plan_.codec != "none";
    method_ = methods().make("allreduce");
    WorkerSide side{.facts = facts_, .arena = arena_, .engine = engine_, .plan = plan_};
    side.update = [this](Parameter& p, Rows rows, const StepContext&) {
      engine_.compute(update_seconds_.at(&p) * static_cast<double>(rows.count) /
                      static_cast<double>(p.all_rows().count));
    };
    strategy_ = method_->worker(side);
    find_moments();
  }

  void step() {
    strategy_->begin_step({.step = ++steps_});
    for (std::size_t l = 0; l < times_.size(); ++l)
      pass(times_[l].forward_ms, needed_[l], [&](const Moment& m) { strategy_->before_forward(*m.parameter, m.rows); });
    for (std::size_t l = times_.size(); l-- > 0;)
      pass(times_[l].backward_ms, finished_[l],
           [&](const Moment& m) { strategy_->gradient_ready(*m.parameter, m.rows); });
    strategy_->end_step();
  }
  void flush() { strategy_->flush(); }
  double compute_seconds() const { return compute_seconds_; }

 private:
  template <class F>
  void pass(double milliseconds, const std::vector<Moment>& moments, F happens) {
    double done = 0;
    for (const Moment& m : moments) {
      engine_.compute(m.at - done);
      done = m.at;
      happens(m);
    }
    engine_.compute(std::max(0.0, 1e-3 * milliseconds - done));
  }

  void find_moments() {
    std::map<std::string, Parameter*> parameters;
    for (const auto& p : arena_.parameters()) parameters[p->info.name] = p.get();
    needed_.resize(times_.size()), finished_.resize(times_.size());
    for (std::size_t l = 0; l < times_.size(); ++l) {
      const LayerTimes::Layer& layer = times_[l];
      require_times({layer.forward_ms, layer.backward_ms}, layer.name);
      compute_seconds_ += 1e-3 * (layer.forward_ms + layer.backward_ms);
      for (const LayerTimes::Parameter& of : layer.parameters) {
        const auto found = parameters.find(of.name);
        require<DataError>(found != parameters.end(), "simulate: the times are of a parameter ", of.name,
                           ", which the model does not have (`compute`): measure this model");
        require_times({of.ready_ms, of.update_ms}, of.name);
        Parameter& p = *found->second;
        parameters.erase(found);
        update_seconds_[&p] = 1e-3 * of.update_ms;
        compute_seconds_ += 1e-3 * of.update_ms;
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
  const std::vector<LayerTimes::Layer>& times_;
  ParameterArena arena_;
  TrainingFacts facts_;
  const Plan plan_;
  std::unique_ptr<Method> method_;
  std::unique_ptr<Strategy> strategy_;
  std::map<const Parameter*, double> update_seconds_;
  std::vector<std::vector<Moment>> needed_, finished_;  // by layer
  double compute_seconds_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace

bool is_alike(const Plan& plan, const VirtualNetwork& network) {
  if (!network.links.of.empty() || network.links.all.jitter.count() > 0) return false;
  return std::all_of(plan.buckets.begin(), plan.buckets.end(), [&](const Bucket& b) {
    const auto alike = allreduce_named(b.allreduce).kind.alike;
    return alike != nullptr && alike(network.ranks);
  });
}

SimulatedStep simulate_step(const SimulatedTraining& training, const VirtualNetwork& network) {
  constexpr int kWarmUpSteps = 4;
  constexpr double kEqual = 1e-4;
  SimulatedStep step;
  run_in_virtual_time(network, [&](VirtualEngine& engine) {
    Simulation simulation(training, engine);
    // One rank alone may stop as soon as steps are equal.
    const bool alone = network.mirrored || network.ranks == 1;
    double took = 0;
    for (int i = 0; i < kWarmUpSteps; ++i) {
      const double began = engine.now(), before = std::exchange(took, 0);
      simulation.step();
      took = engine.now() - began;
      if (alone && i > 0 && std::abs(took - before) <= kEqual * took) break;
    }
    const double began = engine.now();
    const EngineCounters before = engine.counters();
    const int kSteps = alone ? 1 : 5;
    for (int i = 0; i < kSteps; ++i) simulation.step();
    if (engine.rank() == 0) {
      const EngineCounters after = engine.counters();
      step = {(engine.now() - began) / kSteps, simulation.compute_seconds(),
              (after.exposed_seconds - before.exposed_seconds) / kSteps,
              static_cast<double>(after.sent.bytes - before.sent.bytes) / kSteps};
    }
    simulation.flush();
  });
  return step;
}

}  // namespace laconic::dist
