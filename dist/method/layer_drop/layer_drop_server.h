#pragma once
#include <cstdint>
#include <vector>

#include "dist/server/server.h"

namespace laconic::dist {

/// Ahead of each leg of a layer; alone it is the placeholder.
///
///     little-endian   step : u32 | version : u32 | comes : u32     1: the floats follow; 0: nothing does
struct LayerHeader {
  std::uint32_t step = 0;     ///< of the round
  std::uint32_t version = 0;  ///< up: the one that the worker holds; down: the one that it holds from now on
  std::uint32_t comes = 0;
};
static_assert(sizeof(LayerHeader) == 12);

/// The serving half of layer dropping: adds the layers that came, in rank order, and updates a layer only if some
/// worker sent it, by momentum and weight decay too; one that nobody sent is left as it is and stays where it is:
///
///     worker 0     header 1, floats ──▶  version 7 = mine?   sum = part 0 + part 2       version 8
///     worker 1     header 0         ──▶  version 7 = mine?   update(sum)          ──▶ to all: header 1, floats
///     worker 2     header 1, floats ──▶  version 7 = mine?   nobody sent it       ──▶ to all: header 0
///
/// Every header names the version, so that a worker provably holds what the server thinks that it holds, and the step,
/// so that nothing is added twice.
/// source  LayerDrop, section 4 (settled: a placeholder counts as zeros in the mean over workers)
/// throws  CommError naming the worker whose version or step is another one
class LayerDropServer final : public ParameterServer {
 public:
  using ParameterServer::ParameterServer;
  Task<> serve(Communicator& comm, const Shard::Unit& unit, StepContext context) override;
};

}  // namespace laconic::dist
