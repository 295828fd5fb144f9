#include "dist/method/layer_drop/layer_drop_sync.h"

namespace laconic::dist {
namespace {

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

Task<> LayerDropServer::serve(Communicator& comm, const Shard::Unit& unit, StepContext context) {
  const std::size_t N = workers().size();
  const auto step = static_cast<std::uint32_t>(context.step), held = static_cast<std::uint32_t>(version(unit));
  begin_round(unit, context);
  std::vector<LayerHeader> headers(N);
  std::vector<Transfer> coming;
  std::vector<int> senders;
  try {
    for (std::size_t i = 0; i < N; ++i)
      coming.push_back(comm.recv(workers()[i], Slice<LayerHeader>(&headers[i], 1).bytes()));
    for (std::size_t i = 0; i < N; ++i) {
      const Transfer transfer = coming[i];
      const int r = workers()[i];
      co_await all_of(comm, transfer, r, sizeof(LayerHeader));
      require<CommError>(headers[i].step == step && headers[i].version == held && headers[i].comes <= 1,
                         "server: rank ", r, " is in step ", headers[i].step, " with version ", headers[i].version,
                         " of ", unit.name, ", the server in step ", step, " with version ", held,
                         ". Resume all of them alike.");
      if (headers[i].comes == 1) senders.push_back(r);
    }
  } catch (...) {
    comm.cancel();  // the headers live in this frame
    throw;
  }
  if (!senders.empty()) {
    const Leg up = legs().upward(unit.bucket, context.step, 0);
    const Slice<float> sum = shard().sum(unit);
    co_await recv_sum(comm, senders, sum, up);
    co_await limit(unit, context);
    apply(unit, context);
  } else if (norm() != nullptr) {
    norm()->add(context.step, unit.bucket, 0);
  }
  const Leg down{.moved = &sent()};
  const LayerHeader answer{step, static_cast<std::uint32_t>(version(unit)), senders.empty() ? 0u : 1u};
  for (const int r : workers()) co_await send_header(comm, r, answer, down);
  if (!senders.empty()) co_await send_values(comm, unit, context);
}

}  // namespace

std::unique_ptr<ParameterServer> make_layer_drop_server(ServerSide side, ParameterServer::Options options) {
  return std::make_unique<LayerDropServer>(side.shard, std::move(side.update), std::move(options));
}

}  // namespace laconic::dist
