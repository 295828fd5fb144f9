#pragma once
#include <memory>

#include "dist/transport/transport.h"

namespace laconic::dist {

bool mpi_built_in();  ///< whether this build has MPI

/// Open MPI point-to-point between the processes that mpirun started. Initialises MPI, and finalises it when it goes:
/// make, use and destroy it on one thread (the engine's). Every receive names its source and tag (the slot).
/// While transfers are pending wait() tests them in bursts, yielding in between; with none pending it sleeps.
/// Throws UsageError if the build has no MPI, CommError if MPI does not start.
std::unique_ptr<Transport> make_mpi_transport();

}  // namespace laconic::dist
