#pragma once
#include <vector>

#include "compress/slim_message.h"
#include "dist/server/server.h"

namespace laconic::dist {

/// The serving half of Slim-DP: adds what workers choose of their updates, and sends what it chooses of the parameters,
/// one set for all. It has no optimiser: momentum and weight decay are the workers'.
///
///     worker k                                             server
///     chosen of what it has learned       ──────────▶      w[keys] += values / N                in rank order
///     (keys only if its core is new)      ◀──────────      0: taken;  1: that core is unknown here, send its keys
///     w[keys] = values                    ◀──────────      chosen of w, the same bytes to all
///     0: taken;  1: ... send its keys     ──────────▶
///
/// source  SlimDP, Algorithms 1 and 2 (settled: values contain the learning rate; selection is from the updated w)
/// throws  CommError naming the worker whose message is none, or who asks for keys that it was sent
class SlimServer final : public ParameterServer {
 public:
  SlimServer(Shard& shard, Options options, const compress::SlimRules& rules, std::int64_t local_steps);
  Task<> serve(Communicator& comm, const Shard::Unit& unit, StepContext context) override;

  void save(StateDict& state) const override;
  void load(const StateDict& state) override;

 private:
  struct Layer {  // one bucket
    compress::SlimSet set;
    std::vector<compress::SlimReader> readers;  // by worker
  };
  const compress::SlimRules rules_;
  const std::int64_t local_steps_;
  std::vector<Layer> layers_;  // by unit
};

/// One number each way: whether a message was understood. Bytes that are no such number: CommError.
Task<> send_answer(Communicator& comm, int to, bool wants_keys, Leg leg);
Task<bool> recv_answer(Communicator& comm, int from, Leg leg);

}  // namespace laconic::dist
