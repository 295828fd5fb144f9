#include "dist/predict/predictor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compress/codecs.h"
#include "dist/server/shard.h"

namespace laconic::dist {
namespace {

constexpr int kMostRanksSimulated = 64;  // beyond, a step's simulation takes longer than it is worth
constexpr int kMostRanksOneByOne = 8;

/// Replays a schedule. Work that falls into computing makes it longer, and so the step.
///   taken : seconds of a core's work on messages that the cores that compute do
Replay replay_with_work(const Schedule& s, double taken, Overlap overlap) {
  Replay result = replay(s.layers, s.messages, overlap);
  if (taken == 0 || result.step_seconds == 0) return result;
  const double compute = result.compute_seconds;
  for (int i = 0; i < 2; ++i) {
    const double busy = std::min(1.0, compute / std::max(compute, result.step_seconds));
    const double factor = 1 + taken * busy / std::max(1e-9, compute);
    std::vector<ReplayLayer> layers = s.layers;
    std::vector<ReplayMessage> messages = s.messages;
    for (ReplayLayer& l : layers) l.forward_seconds *= factor, l.backward_seconds *= factor;
    for (ReplayMessage& m : messages) m.ready_seconds *= factor, m.update_seconds *= factor;
    result = replay(layers, messages, overlap);
  }
  result.compute_seconds = compute;
  return result;
}

/// Nothing where the group is too large for it. What sends once in a period is simulated as if each step were so.
std::optional<SimulatedStep> simulated(const PredictionFacts& facts, const Plan& plan) {
  VirtualNetwork network = facts.group.network(plan.codec);
  SimulatedTraining training{.parameters = infos_of(facts.parameters), .times = facts.times, .plan = plan};
  training.facts = {.workers = network.ranks, .momentum = facts.momentum, .overlap = facts.overlap};
  if (plan.sparse()) training.method = facts.allowed.find(plan.sync)->method;
  training.facts.codec_feedback = facts.codec_feedback && plan.codec != "none";
  network.mirrored = is_alike(training, network);
  if (network.ranks > (network.mirrored ? kMostRanksSimulated : kMostRanksOneByOne)) return std::nullopt;
  return simulate_step(training, network);
}

}  // namespace

Predictor::Predictor(const PredictionFacts& facts) : facts_(facts) {
  std::map<std::string, Place> by_name;
  for (const LayerTimes::Layer& l : facts.times.layers) {
    for (const LayerTimes::Parameter& p : l.parameters)
      by_name[p.name] = {static_cast<int>(layers_.size()), 1e-3 * p.ready_ms, 1e-3 * p.update_ms};
    layers_.push_back({l.name, 1e-3 * l.forward_ms, 1e-3 * l.backward_ms});
  }
  for (const auto& p : facts.parameters) {
    const auto found = by_name.find(p->info.name);
    require<DataError>(found != by_name.end(), "plan: there is no time for parameter ", p->info.name,
                       ". Measure this model.");
    places_.push_back(found->second);
  }
}

Schedule Predictor::schedule(const Plan& plan) {
  const Coding& coding = this->coding(plan.codec);
  const MethodChoice* const choice = facts_.allowed.find(plan.sync);
  require<Error>(choice != nullptr || (plan.sync.empty() && !plan.sparse()), "plan: it is for `sync` ", plan.sync,
                 ", which is not allowed.");
  Schedule s{.layers = layers_};
  if (choice != nullptr) s.period = static_cast<double>(choice->method->traits().every);
  const double density = plan.sparse() ? choice->options(facts_.group.workers).sparse.density : 1;
  s.messages.reserve(plan.buckets.size());
  for (const Bucket& b : plan.buckets) {
    const bool goes_on = b.chunk() && b.rows.first > 0;
    if (!goes_on) s.messages.push_back(message(b));
    s.message_of.push_back(s.messages.size() - 1);
    if (goes_on && b.sparse()) continue;
    ReplayMessage& m = s.messages.back();
    if (goes_on) ++m.chunks;
    if (b.sparse())
      add_choice(m, s.layers[static_cast<std::size_t>(m.layer)], b, density, coding.work);
    else
      add_sum(m, b, coding);
  }
  double work = 0;
  for (const ReplayMessage& m : s.messages) work += m.core_seconds;
  s.replay = replay_with_work(s, coding.work.taken_from_computing * work, facts_.overlap);
  return s;
}

double Predictor::simulate(const Plan& plan) {
  const Schedule s = schedule(plan);
  const auto step = simulated(facts_, plan);
  return step ? s.mean(step->seconds, step->compute_seconds) : s.mean_seconds();
}

std::vector<std::string> Predictor::allreduces(const std::string& codec) const {
  std::vector<std::string> names;
  const bool remembers = codec != "none" && compress::traits_of(codec).remembers;
  for (const AllreduceKind& kind : dist::allreduces())
    if (kind.carrier == Carrier::messages && kind.least_group == 0 && kind.cost && !(remembers && kind.encodes_alike) &&
        allreduce_cost(kind.name, facts_.group.workers, 1024))
      names.push_back(kind.name);
  return names;
}

std::string Predictor::soonest(const Plan& plan, const Bucket& b, const std::vector<std::string>& names) {
  const Calibration& group = facts_.group;
  const LinkModel link{group.latency_seconds, 1 / group.bytes_per_second, group.work.per_added_byte};
  const compress::Codec* const codec = coding(plan.codec).codec.get();
  std::string best = "ring";
  double least = 0;
  for (const std::string& name : names) {
    const auto cost = allreduce_cost(name, group.workers, 4.0 * static_cast<double>(b.elements), 1, codec);
    const double seconds = cost ? link.seconds(*cost) : 0;
    if (cost && (least == 0 || seconds < least)) least = seconds, best = name;
  }
  return best;
}

const Predictor::Coding& Predictor::coding(const std::string& codec) {
  const auto [place, is_new] = codings_.try_emplace(codec);
  if (is_new) place->second = {compress::make_codec(codec), facts_.group.network(codec).work};
  return place->second;
}

/// When a bucket is ready, and what its parameters' updates take.
ReplayMessage Predictor::message(const Bucket& b) const {
  const ParameterInfo& first = facts_.parameters[static_cast<std::size_t>(b.first)]->info;
  ReplayMessage m{.name = b.chunk() ? first.name : b.name, .layer = static_cast<int>(layers_.size())};
  for (int i = b.first; i < b.first + b.count; ++i) {
    const Place& place = places_[static_cast<std::size_t>(i)];
    if (place.layer < m.layer) m.layer = place.layer, m.ready_seconds = 0;
    if (place.layer == m.layer)
      m.ready_seconds = std::min(std::max(m.ready_seconds, place.ready_seconds),
                                 layers_[static_cast<std::size_t>(place.layer)].backward_seconds);
    m.update_seconds += place.update_seconds;
  }
  m.pieces = b.pieces;
  return m;
}

void Predictor::add_sum(ReplayMessage& m, const Bucket& b, const Coding& coding) const {
  const int N = facts_.group.workers;
  const double elements = static_cast<double>(b.elements), latency = facts_.group.latency_seconds;
  const compress::Codec* const codec = coding.codec.get();
  const WorkCosts& work = coding.work;
  // As one piece: all of a ring's pieces wait for the same latency together.
  const auto cost = N > 1 ? allreduce_cost(b.allreduce, N, 4 * elements, 1, codec) : std::nullopt;
  if (!cost) return;
  m.link_seconds += cost->bytes / facts_.group.bytes_per_second;
  const double hops = allreduce_cost(b.allreduce, N, sizeof(float), 1)->messages;  // in which pieces fly together
  const bool in_pieces = cost->messages > hops || b.pieces > 1;
  if (facts_.bound && in_pieces)  // behind the last byte comes one latency, and no byte is faster than all hops
    m.delay_seconds = std::max(latency, hops * latency - m.link_seconds);
  else if (!facts_.bound || m.chunks == 1)  // a short last chunk in one piece makes no earlier one wait for all hops
    m.delay_seconds = std::max(m.delay_seconds, hops * latency);
  const double messages = cost->messages * std::max(1.0, static_cast<double>(b.pieces));
  m.core_seconds += 2 * (messages * work.per_message + cost->bytes * work.per_byte);
  if (codec && facts_.codec_feedback)  // what is lost is added, and found by decoding
    m.core_seconds += elements * (4 * work.per_added_byte + work.per_decoded_element);
  if (codec)
    m.core_seconds += cost->bytes_added / 4 * (work.per_encoded_element + work.per_decoded_element) +
                      elements * (work.per_decoded_element + work.per_encoded_element / N);
  else
    m.core_seconds += cost->bytes_added * work.per_added_byte;
}

/// All send all their choice, and each adds up those of all. The compute thread chooses when backward has passed.
void Predictor::add_choice(ReplayMessage& m, ReplayLayer& layer, const Bucket& b, double density,
                           const WorkCosts& work) const {
  constexpr double kBytesOfChoice = 8, kHeaderBytes = 8;  // an index and a value; of a message
  const auto elements = static_cast<double>(b.elements);
  const auto chosen = static_cast<double>(elements_to_send(b.elements, density));
  const Cost cost = allgatherv_cost(facts_.group.workers, kBytesOfChoice * chosen + kHeaderBytes);
  m.link_seconds = cost.bytes / facts_.group.bytes_per_second;
  m.delay_seconds = cost.messages * facts_.group.latency_seconds;
  m.core_seconds = 2 * (cost.messages * work.per_message + cost.bytes * work.per_byte);
  m.update_seconds = facts_.group.workers * chosen * work.per_scattered_element;
  m.pieces = 1;
  layer.backward_seconds += elements * (work.per_gathered_element + work.per_selected_element);
  m.ready_seconds = layer.backward_seconds;
}

double predict_step(const PredictionFacts& facts, const Plan& plan) {
  return Predictor(facts).schedule(plan).mean_seconds();
}

double simulate_plan(const PredictionFacts& facts, const Plan& plan) { return Predictor(facts).simulate(plan); }

}  // namespace laconic::dist
