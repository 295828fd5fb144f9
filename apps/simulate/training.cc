#include "apps/simulate/training.h"

#include <algorithm>
#include <map>

#include "compress/codecs.h"
#include "core/clock.h"
#include "core/random.h"
#include "core/raw.h"
#include "layers/loss.h"
#include "layers/models/zoo.h"
#include "layers/summary.h"

namespace laconic {
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

/// The compute thread of one rank.
class Simulation {
 public:
  Simulation(const SimulatedTraining& training, dist::VirtualEngine& engine)
      : engine_(engine),
        times_(training.times.layers),
        model_(make_model(training.model, {.classes = training.classes})),
        arena_(model_->parameters(), kGhost) {
    facts_.workers = engine.size();
    facts_.overlap = training.overlap;
    facts_.plan = training.plan;
    if (engine.size() == 1) facts_.plan.chunk_bytes = 0;  // nothing travels, nothing is hidden
    plan_ = dist::make_plan(arena_.parameters(), facts_.plan, engine.size());
    method_ = dist::methods().make("allreduce");
    dist::WorkerSide side{.facts = facts_, .arena = arena_, .engine = engine_, .plan = plan_};
    side.update = [this](Parameter& p, Rows rows, const dist::StepContext&) {
      engine_.compute(update_seconds_.at(&p) * static_cast<double>(rows.count) /
                      static_cast<double>(p.all_rows().count));
    };
    strategy_ = method_->worker(side);
    find_moments(training.model);
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

  void find_moments(const std::string& model) {
    std::map<std::string, Parameter*> parameters;
    for (const auto& p : arena_.parameters()) parameters[p->info.name] = p.get();
    needed_.resize(times_.size()), finished_.resize(times_.size());
    for (std::size_t l = 0; l < times_.size(); ++l) {
      const LayerTimes::Layer& layer = times_[l];
      require_times({layer.forward_ms, layer.backward_ms}, layer.name);
      compute_seconds_ += 1e-3 * (layer.forward_ms + layer.backward_ms);
      for (const LayerTimes::Parameter& of : layer.parameters) {
        const auto found = parameters.find(of.name);
        require<DataError>(found != parameters.end(), "simulate: the times are of a parameter ", of.name, ", which ",
                           model, " does not have (`compute`): measure this model");
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
                       parameters.empty() ? "" : parameters.begin()->first, " of ", model,
                       " (`compute`): measure this model");
  }

  dist::VirtualEngine& engine_;
  const std::vector<LayerTimes::Layer>& times_;
  std::shared_ptr<Module> model_;
  ParameterArena arena_;
  dist::TrainingFacts facts_;
  dist::Plan plan_;
  std::unique_ptr<dist::Method> method_;
  std::unique_ptr<dist::Strategy> strategy_;
  std::map<const Parameter*, double> update_seconds_;
  std::vector<std::vector<Moment>> needed_, finished_;  // by layer
  double compute_seconds_ = 0;
  std::int64_t steps_ = 0;
};

/// The least time of a few runs, in seconds.
template <class F>
double least_seconds(F run) {
  double least = 1;
  for (int i = 0; i < 7; ++i) {
    const auto begin = Clock::now();
    run();
    least = std::min(least, seconds_since(begin));
  }
  return least;
}

}  // namespace

LayerTimes layer_times_at(double flop_per_second, const std::string& name, int classes, std::int64_t batch) {
  const auto model = make_model(name, {.classes = classes});
  const auto ms = [&](double flop) { return 1e3 * flop / flop_per_second; };
  LayerTimes times;
  std::map<std::string, std::size_t> place;
  for (const LayerSummary& layer : summarize(*model, ghost_batch(model_info(name).input, batch).x)) {
    place[layer.name] = times.layers.size();
    times.layers.push_back({layer.name, ms(layer.flop), ms(2 * layer.flop), {}});
  }
  const ParameterArena arena(model->parameters(), kGhost);
  for (const auto& p : arena.parameters()) {
    const auto found = place.find(p->info.name.substr(0, p->info.name.rfind('.')));
    require<Error>(found != place.end(), "simulate: parameter ", p->info.name, " belongs to no layer of ", name, ".");
    LayerTimes::Layer& layer = times.layers[found->second];
    layer.parameters.push_back(
        {p->info.name, p->info.elements, layer.backward_ms, ms(4 * static_cast<double>(p->info.elements)), 1});
  }
  for (const LayerTimes::Layer& layer : times.layers) times.step_ms += layer.forward_ms + layer.backward_ms;
  return times;
}

dist::WorkCosts measure_work(const std::string& codec_name) {
  constexpr std::size_t n = 1 << 18;
  std::vector<float> x(n), y(n, 0.5f);
  Random random(0, Purpose::test);
  for (float& v : x) v = 0.01f * random.normal();
  dist::WorkCosts work;
  work.per_added_byte = least_seconds([&] { raw::add_into(slice(y), slice(x)); }) / (4.0 * n);
  if (const auto codec = compress::make_codec(codec_name)) {
    compress::Bytes payload;
    const compress::Key key{};
    work.per_encoded_element = least_seconds([&] {
                                 payload.clear();
                                 codec->encode(slice(x), key, payload);
                               }) /
                               n;
    work.per_decoded_element = least_seconds([&] { codec->decode(payload.slice(), slice(y)); }) / n;
  }
  return work;
}

bool is_alike(const SimulatedTraining& training, const dist::VirtualNetwork& network) {
  if (!network.links.of.empty() || network.links.all.jitter.count() > 0) return false;
  const auto model = make_model(training.model, {.classes = training.classes});
  const ParameterArena arena(model->parameters(), kGhost);
  const dist::Plan plan = dist::make_plan(arena.parameters(), training.plan, network.ranks);
  return std::all_of(plan.buckets.begin(), plan.buckets.end(), [&](const dist::Bucket& b) {
    const auto alike = dist::allreduce_named(b.allreduce).kind.alike;
    return alike != nullptr && alike(network.ranks);
  });
}

SimulatedStep simulate_step(const SimulatedTraining& training, const dist::VirtualNetwork& network) {
  constexpr int kWarmUpSteps = 3, kSteps = 5;
  SimulatedStep step;
  dist::run_in_virtual_time(network, [&](dist::VirtualEngine& engine) {
    Simulation simulation(training, engine);
    for (int i = 0; i < kWarmUpSteps; ++i) simulation.step();
    const double began = engine.now();
    const dist::EngineCounters before = engine.counters();
    for (int i = 0; i < kSteps; ++i) simulation.step();
    if (engine.rank() == 0) {
      const dist::EngineCounters after = engine.counters();
      step = {(engine.now() - began) / kSteps, simulation.compute_seconds(),
              (after.exposed_seconds - before.exposed_seconds) / kSteps,
              static_cast<double>(after.sent.bytes - before.sent.bytes) / kSteps};
    }
    simulation.flush();
  });
  return step;
}

}  // namespace laconic
