#include "dist/method/ps/method.h"

#include <algorithm>
#include <utility>

#include "compress/codecs.h"
#include "dist/method/allreduce_sync.h"

namespace laconic::dist {

void ServedMethod::settings(Settings& s) {
  begin_group(s);
  s.whole_number<int>("local-aggregate", "G", local_aggregate, 1,
                      "groups of G workers join their gradients by `allreduce`,\nand one of each talks to the servers");
  add_truncation(s);
}

void ServedMethod::add_truncation(Settings& s) {
  s.group("Codecs (`sync` allreduce, ps, layerdrop, slimdp, rounds)", Scope::exchange);
  s.whole_number<int>("truncate-weights", "BITS", truncate_weights, 0,
                      "low bits that parameters lose between servers and\nworkers, 1 to 31; 0: none");
  begin_group(s);
}

void ServedMethod::check(const TrainingFacts& f) const {
  if (truncate_weights > 31)
    refuse(concat("a float cannot lose ", truncate_weights, " of its 32 bits"), "`truncate-weights`",
           "cut off 1 to 31, or 0 for none");
  const auto by = find_allreduce(f.plan.allreduce);
  if (local_aggregate > 1 && by && by->kind.carrier == Carrier::nccl)
    refuse("NCCL joins all ranks, and no group of them", "`local-aggregate`", "take `allreduce` ring");
  legs(f.plan.codec, f.codec_feedback, f.seed);  // checks them
  require<UsageError>(f.clip_norm == 0 || f.workers != 1 || f.servers > 0,
                      "a worker that is alone and its own server updates each layer before the next one's gradient is "
                      "there (`clip`): give `clip` value:X, or take `sync` allreduce");
}

std::optional<Method::Refusal> ServedMethod::refuses(const std::string& setting) const {
  if (setting == "allreduce" && local_aggregate == 1)
    return Refusal{"`sync` " + name() + " has no use for it", "leave it out: there is a server in its place"};
  return Method::refuses(setting);
}

Legs ServedMethod::legs(const std::string& codec, bool feedback, std::uint64_t seed) const {
  const bool truncates = truncate_weights > 0;
  const compress::CodecTraits traits = compress::traits_of(codec);
  feedback |= traits.remembers;
  Legs legs{.up = compress::make_codec(codec), .seed = seed};
  if (truncates)
    legs.down = compress::make_codec(concat("trunc:", truncate_weights), "`truncate-weights`");
  else if (traits.bears_weights || feedback)
    legs.down = legs.up;
  legs.keeps_losses = feedback && traits.loses;
  legs.differences = feedback && traits.loses && legs.down != nullptr && !truncates;
  legs.rounds_down = legs.down != nullptr && (truncates || traits.loses);
  return legs;
}

std::unique_ptr<Strategy> ServedMethod::worker(WorkerSide side) const {
  const Legs both = legs(side.plan.codec, side.facts.codec_feedback, side.facts.seed);
  return make_worker(std::move(side), {.name = name(), .group = local_aggregate, .legs = both});
}

std::unique_ptr<ParameterServer> ServedMethod::server(ServerSide side) const {
  const TrainingFacts& f = side.facts;
  ParameterServer::Options options{.workers = leaders_of(f.workers, local_aggregate),
                                   .legs = legs(side.codec, f.codec_feedback, f.seed),
                                   .norm = std::move(side.norm)};
  return make_server(std::move(side), std::move(options));
}

std::unique_ptr<ParameterServer> ServedMethod::make_server(ServerSide side, ParameterServer::Options options) const {
  return std::make_unique<ParameterServer>(side.shard, std::move(side.update), std::move(options));
}

std::optional<double> ServedMethod::bytes_of_round(const Bucket& bucket, const Legs& legs) const {
  double bytes = legs.takes_turn(bucket.elements) ? 2 * sizeof(Turn) : 0;
  for (const auto& codec : {legs.up, legs.down})
    bytes += leg_bytes(codec.get(), static_cast<std::size_t>(bucket.elements));
  return bytes;
}

std::optional<double> ServedMethod::expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>&,
                                                   const TrainingFacts& f) const {
  const Legs both = legs(plan.codec, f.codec_feedback, 0);
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    const std::optional<double> round = bytes_of_round(b, both);
    if (!round) return std::nullopt;
    bytes += *round;
  }
  const double N = f.workers, leaders = (f.workers - 1) / local_aggregate + 1;
  double all = leaders * (f.servers > 0 ? bytes : bytes * (N - 1) / N);
  for (int first = 0; first < f.workers && local_aggregate > 1; first += local_aggregate) {
    const int members = std::min(local_aggregate, f.workers - first);
    for (const Bucket& b : plan.buckets) {
      const double size = 4 * static_cast<double>(b.elements);
      const std::optional<Cost> inside = allreduce_cost(b.allreduce, members, size, b.pieces);
      all += (members > 1 && inside ? inside->all_bytes : 0) + (members - 1) * size;
    }
  }
  return all / N;
}

LedgerForm ServedMethod::ledger() const {
  static constexpr LedgerColumn columns[] = {exchanges_as("exchanges"), kSent, kUp, kDown};
  return {columns, "up, down: bytes between rank 0 and servers"};
}

std::string ServedMethod::describe(const TrainingFacts& f) const {
  std::string text = name();
  if (truncate_weights > 0) text += concat(", weights without ", truncate_weights, " bits");
  if (local_aggregate > 1) text += concat(", groups of ", local_aggregate);
  if (f.servers == 0) return text + ", colocated";
  return text + concat(", ", f.servers, " server", f.servers == 1 ? "" : "s");
}

std::unique_ptr<PsSync> ServedMethod::make_worker(WorkerSide side, PsSync::Options options) const {
  return std::make_unique<PsSync>(std::move(side), std::move(options));
}

namespace {

/// All gradients up, all parameters down.
class Ps final : public ServedMethod {
 public:
  std::string name() const override { return "ps"; }
  std::string summary() const override { return "gradients to parameter servers, parameters back"; }
  Traits traits() const override {
    Traits traits = ServedMethod::traits();
    traits.on_ghosts = true;
    return traits;
  }
  /// Finer buckets than an allreduce has, so that one comes down while the next goes up: the way down is idle until the
  /// first sum is whole, the way up when the last is.
  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    if (plan.chunk_is_default()) plan.chunk_bytes = 64 << 10;
    plan.chunk_convolutions = true;
    if (plan.fusion_is_default()) plan.bucket_bytes = 64 << 10;
  }
};

}  // namespace

std::unique_ptr<Method> make_ps() { return std::make_unique<Ps>(); }

}  // namespace laconic::dist
