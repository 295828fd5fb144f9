#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/sync/layer_drop.h"
#include "dist/sync/slim.h"

namespace laconic::dist {

/// A strategy with a parameter server, as --sync names it.
///
///   ps          dense: all gradients up, all parameters down
///   layerdrop   layers of small gradients stay at home
///   slimdp      a choice of what workers have learned up, a choice of the parameters down
struct ServerMethod {
  enum class Kind : std::uint8_t { dense, layers, slim } kind;
  const char* name;
  bool workers_update;  ///< the optimiser is the workers', and the server only adds
};
const std::vector<ServerMethod>& server_methods();
/// Null if `sync` is none of them.
const ServerMethod* server_method(const std::string& sync);

/// What the command line says about them.
struct ServerOptions {
  LayerDropSync::Rules layers{};
  bool finest = false;  ///< --layerdrop-unit parameter: a layer is one parameter, not all of one module
  SlimSync::Rules slim{};
  int local_aggregate = 1;  ///< workers of a group, of which one talks to servers
  int truncate_weights =
      0;  ///< low bits that parameters lose on their way down, whatever the codec of gradients; 0: none
};

/// How both ways travel with this codec, as --codec names it:
///   ps, layerdrop   what weights bear both ways (Quant-DP), else gradients alone (INCEPTIONN's worker-aggregator with
///                   compression); with feedback both ways, since what goes down then are differences
///   slimdp          likewise, of the values that were chosen, without feedback
/// feedback : --codec-feedback. Nothing is fed back of a codec that loses nothing, or of weights that are truncated
/// throws UsageError if the codec or feedback makes no sense there
Legs make_legs(const ServerMethod& method, const ServerOptions& options, const std::string& codec, bool feedback,
               std::uint64_t seed);

/// throws UsageError where these make no sense together
void require_sensible(const ServerMethod& method, const ServerOptions& options, bool clips_norm);

/// The plan's options as the strategy needs them: layers that travel as one.
void adapt(PlanOptions& plan, const ServerMethod& method, const ServerOptions& options);

/// On one line, all that decides about results: for fingerprints.
std::string to_string(const ServerMethod& method, const ServerOptions& options);

/// "ps", "layerdrop, R = 0.9"
std::string description(const ServerMethod& method, const ServerOptions& options);

/// update : on the server, unless the workers update
std::unique_ptr<ParameterServer> make_server(const ServerMethod& method, const ServerOptions& rules, Shard& shard,
                                             Update update, ParameterServer::Options options);
/// update : on the worker, if the workers update
std::unique_ptr<PsSync> make_server_sync(const ServerMethod& method, const ServerOptions& rules,
                                         const ParameterArena& arena, Engine& engine, const Plan& plan, Update update,
                                         PsSync::Options options);

/// About how many bytes a rank sends in a step, the mean over workers, servers' legs included; nothing where the
/// gradients decide. servers : dedicated ones, 0 if they are colocated
std::optional<double> expected_bytes(const ServerMethod& method, const ServerOptions& options, const Plan& plan,
                                     int workers, int servers);

}  // namespace laconic::dist
