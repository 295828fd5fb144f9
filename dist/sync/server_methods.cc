#include "dist/sync/server_methods.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/codec_traits.h"
#include "compress/make_codec.h"
#include "dist/server/slim_server.h"
#include "dist/sync/allreduce.h"

namespace laconic::dist {

const std::vector<ServerMethod>& server_methods() {
  static const std::vector<ServerMethod> methods = {{ServerMethod::Kind::dense, "ps", false},
                                                    {ServerMethod::Kind::layers, "layerdrop", false},
                                                    {ServerMethod::Kind::slim, "slimdp", true}};
  return methods;
}

const ServerMethod* server_method(const std::string& sync) {
  for (const ServerMethod& method : server_methods())
    if (sync == method.name) return &method;
  return nullptr;
}

void require_sensible(const ServerMethod& m, const ServerOptions& o, bool clips_norm) {
  require<UsageError>(
      !clips_norm || m.kind != ServerMethod::Kind::slim, "--sync ", m.name,
      " updates layer by layer on each worker, before the length of its whole gradient is known (--clip): "
      "give --clip value:X, or take --sync ps");
  require<UsageError>(m.kind != ServerMethod::Kind::slim || o.local_aggregate == 1,
                      "workers of --sync slimdp train each by "
                      "itself, and join nothing in groups (--local-aggregate): leave it out, or take --sync ps");
  if (m.kind == ServerMethod::Kind::layers) compress::drop_threshold({}, o.layers.drop_ratio);  // checks it
  if (m.kind == ServerMethod::Kind::slim) compress::require_sensible(o.slim.chosen);
}

Legs make_legs(const ServerMethod& m, const ServerOptions& o, const std::string& codec, bool feedback,
               std::uint64_t seed) {
  const bool slim = m.kind == ServerMethod::Kind::slim, truncates = o.truncate_weights > 0;
  const compress::CodecTraits traits = compress::traits_of(codec);
  require<UsageError>(!slim || !traits.remembers,
                      "--sync slimdp sends a choice of parameters, of which one bit says too "
                      "little (--codec ",
                      codec, "): take qsgd:8:512");
  feedback |= traits.remembers;
  require<UsageError>(!slim || !feedback,
                      "--sync slimdp gathers nothing that was not sent (--codec-feedback): leave it "
                      "out");
  Legs legs{.up = compress::make_codec(codec), .seed = seed};
  if (truncates)
    legs.down = compress::make_codec(concat("trunc:", o.truncate_weights), "--truncate-weights");
  else if (traits.bears_weights || feedback)
    legs.down = legs.up;
  legs.keeps_losses = feedback && traits.loses;
  legs.differences = feedback && traits.loses && legs.down != nullptr && !truncates;
  legs.rounds_down = legs.down != nullptr && (truncates || traits.loses);
  return legs;
}

void adapt(PlanOptions& plan, const ServerMethod& m, const ServerOptions& o) {
  constexpr std::size_t kAll = std::size_t{1} << 60;
  if (m.kind == ServerMethod::Kind::dense) return;
  if (m.kind != ServerMethod::Kind::slim || o.slim.whole_model) plan.chunk_bytes = 0;
  plan.fusion = PlanOptions::Fusion::lazy;
  if (m.kind == ServerMethod::Kind::slim)
    plan.bucket_bytes = o.slim.whole_model ? kAll : 0;
  else if (o.finest)
    plan.bucket_bytes = 0;
  else
    plan.fusion = PlanOptions::Fusion::module;
}

std::string to_string(const ServerMethod& m, const ServerOptions& o) {
  if (o.local_aggregate > 1) {
    ServerOptions alone = o;
    alone.local_aggregate = 1;
    return concat(to_string(m, alone), " groups of ", o.local_aggregate);
  }
  if (o.truncate_weights > 0) {
    ServerOptions whole = o;
    whole.truncate_weights = 0;
    return concat(to_string(m, whole), " truncate weights=", o.truncate_weights);
  }
  const LayerDropSync::Rules& l = o.layers;
  const SlimSync::Rules& s = o.slim;
  switch (m.kind) {
    case ServerMethod::Kind::dense:
      break;
    case ServerMethod::Kind::layers:
      return concat(m.name, " ratio=", l.drop_ratio, " threshold every=", l.threshold_every,
                    " norm=", compress::to_string(l.norm), " max age=", l.max_age, " finest=", o.finest);
    case ServerMethod::Kind::slim:
      return concat(m.name, " alpha=", s.chosen.alpha, " explore=", s.chosen.explore,
                    " core every=", s.chosen.core_every, " keys sent=", s.chosen.keys_sent,
                    " local steps=", s.local_steps, " whole model=", s.whole_model, " residual=", s.residual);
  }
  return m.name;
}

std::string description(const ServerMethod& m, const ServerOptions& o) {
  if (o.local_aggregate > 1) {
    ServerOptions alone = o;
    alone.local_aggregate = 1;
    return concat(description(m, alone), ", groups of ", o.local_aggregate);
  }
  if (o.truncate_weights > 0) {
    ServerOptions whole = o;
    whole.truncate_weights = 0;
    return concat(description(m, whole), ", weights without ", o.truncate_weights, " bits");
  }
  switch (m.kind) {
    case ServerMethod::Kind::dense:
      break;
    case ServerMethod::Kind::layers:
      return concat(m.name, ", R = ", o.layers.drop_ratio);
    case ServerMethod::Kind::slim:
      return concat(m.name, ", alpha = ", o.slim.chosen.alpha, ", explorer ", o.slim.chosen.explore);
  }
  return m.name;
}

std::unique_ptr<ParameterServer> make_server(const ServerMethod& m, const ServerOptions& rules, Shard& shard,
                                             Update update, ParameterServer::Options options) {
  switch (m.kind) {
    case ServerMethod::Kind::dense:
      break;
    case ServerMethod::Kind::layers:
      return std::make_unique<LayerDropServer>(shard, std::move(update), std::move(options));
    case ServerMethod::Kind::slim:
      return std::make_unique<SlimServer>(shard, std::move(options), rules.slim.chosen, rules.slim.local_steps);
  }
  return std::make_unique<ParameterServer>(shard, std::move(update), std::move(options));
}

std::unique_ptr<PsSync> make_server_sync(const ServerMethod& m, const ServerOptions& rules, const ParameterArena& arena,
                                         Engine& engine, const Plan& plan, Update update, PsSync::Options options) {
  options.name = m.name;
  switch (m.kind) {
    case ServerMethod::Kind::dense:
      break;
    case ServerMethod::Kind::layers: {
      LayerDropSync::Rules layers = rules.layers;
      layers.keeps_losses = std::exchange(options.legs.keeps_losses, false);
      return std::make_unique<LayerDropSync>(arena, engine, plan, std::move(options), layers);
    }
    case ServerMethod::Kind::slim:
      return std::make_unique<SlimSync>(arena, engine, plan, std::move(update), std::move(options), rules.slim);
  }
  return std::make_unique<PsSync>(arena, engine, plan, std::move(options));
}

std::optional<double> expected_bytes(const ServerMethod& m, const ServerOptions& o, const Plan& plan, int workers,
                                     int servers) {
  if (m.kind == ServerMethod::Kind::layers) return std::nullopt;
  const Legs legs = make_legs(m, o, plan.codec, false, 0);
  double share = 1, keys = 0;
  if (m.kind == ServerMethod::Kind::slim) {
    const compress::SlimRules& c = o.slim.chosen;
    share = c.alpha;
    keys = (c.alpha - c.explore) / static_cast<double>(c.core_every) + (c.keys_sent ? c.explore : 0);
  }
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    const auto n = static_cast<double>(b.elements);
    for (const auto& codec : {legs.up, legs.down})
      bytes += leg_bytes(codec.get(), static_cast<std::size_t>(std::llround(share * n))) + 4 * keys * n;
  }
  if (m.kind == ServerMethod::Kind::slim) bytes /= static_cast<double>(o.slim.local_steps);
  const double N = workers, leaders = (workers + o.local_aggregate - 1) / o.local_aggregate;
  double all = leaders * (servers > 0 ? bytes : bytes * (N - 1) / N);
  for (int first = 0; first < workers && o.local_aggregate > 1; first += o.local_aggregate) {
    const int members = std::min(o.local_aggregate, workers - first);
    for (const Bucket& b : plan.buckets) {
      const double size = 4 * static_cast<double>(b.elements);
      const std::optional<Cost> inside = allreduce_cost(b.algorithm, members, size, b.group, b.pieces);
      all += (members > 1 && inside ? inside->all_bytes : 0) + (members - 1) * size;
    }
  }
  return all / N;
}

}  // namespace laconic::dist
