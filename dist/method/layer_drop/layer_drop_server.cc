#include "dist/method/layer_drop/layer_drop_server.h"

namespace laconic::dist {

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

}  // namespace laconic::dist
