#pragma once
#include <cstdint>
#include <memory>

#include "compress/slim.h"
#include "dist/server/server.h"

namespace laconic::dist {

/// What can be set of Slim-DP (slim.cc).
struct SlimSettings {
  compress::SlimRules chosen{};
  std::int64_t local_steps = 1;  ///< p: steps from one exchange to the next
  bool whole_model = false;      ///< --slim-scope model: one choice of all parameters, as in the paper
  bool residual = false;         ///< --slim-residual
};

/// The servers' half.
std::unique_ptr<ParameterServer> make_slim_server(Shard& shard, ParameterServer::Options options,
                                                  const SlimSettings& settings);

/// Where messages about this memory are put together: in the host's; of a ghost they are ghosts too.
inline Device device_of_messages(Device device) { return device == kGhost ? kGhost : kCpu; }

/// So many buckets send at once (server/turns.h), or come back.
inline constexpr double kSlimTurns = 2;
/// Memory for the keys and values of one choice, about: keys are drawn into more than they need, round after round.
inline double chosen_bytes(const compress::SlimFormat& format) {
  return (2 * sizeof(std::uint32_t) + sizeof(float)) * static_cast<double>(format.count());
}

/// Tells GhostWork of choosing: a new core from all elements; then, for each element that travels, its draw and its
/// copy.
void tell_choice(Device device, const compress::SlimFormat& format, bool of_core);

/// One number each way: whether a message was understood. Bytes that are no such number: CommError.
Task<> send_answer(Communicator& comm, int to, bool wants_keys, Leg leg);
Task<bool> recv_answer(Communicator& comm, int from, Leg leg);

}  // namespace laconic::dist
