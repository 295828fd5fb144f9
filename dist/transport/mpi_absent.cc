#include "dist/transport/mpi.h"

namespace laconic::dist {

bool mpi_built_in() { return false; }

MpiLibrary mpi_library() { return {}; }

void start_mpi() {
  throw UsageError(
      "mpi: this program was started by mpirun but built without MPI. Install libopenmpi-dev and configure again, or "
      "use `workers` N for threads of one process.");
}

std::unique_ptr<Transport> make_mpi_transport(std::optional<int>, ConnectionWatch*) { return nullptr; }

}  // namespace laconic::dist
