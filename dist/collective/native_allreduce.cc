#include "dist/collective/native_allreduce.h"

#include "dist/transport/transport.h"

namespace laconic::dist {
namespace {

TransportCommunicator& over_transport(Communicator& comm) {
  auto* const over = dynamic_cast<TransportCommunicator*>(&comm);
  require<UsageError>(over != nullptr, "allreduce mpi: this communicator has no collectives of its own. Use ring.");
  return *over;
}

}  // namespace

Task<> native_allreduce(Communicator& comm, Slice<float> x) {
  if (comm.size() == 1) co_return;
  TransportCommunicator& over = over_transport(comm);
  co_await over.native_allreduce(x);
}

Task<> prepare_native(Communicator& comm, int first, int count, std::string algorithm) {
  if (comm.size() == 1) co_return;
  over_transport(comm).native().prepare(first, count, algorithm);
}

}  // namespace laconic::dist
