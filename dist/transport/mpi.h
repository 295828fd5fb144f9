#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dist/transport/connection_watch.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

bool mpi_built_in();  ///< whether this build has MPI

/// The Open MPI that this process has loaded. Both are empty if the build has none.
struct MpiLibrary {
  std::string version;  ///< "4.1.4"
  std::string path;     ///< its file
};
MpiLibrary mpi_library();

/// Initialises MPI unless that has been done. It is finalised when the process ends in order: with exit code 0, or with
/// one that tells a signal (above 128), on the thread that calls exit(). After an error it is not: the other ranks may
/// never come to that, and mpirun ends them. Throws UsageError if the build has no MPI, CommError if MPI does not
/// start.
void start_mpi();

/// Open MPI point-to-point between the processes that mpirun started, after start_mpi(). Make, use and destroy it on
/// one thread (the engine's), on all ranks. Every receive names its source and tag (the slot). With no transfer pending
/// wait() sleeps. While some are: if all ranks are reached over TCP it sleeps on Open MPI's own sockets
/// (socket_watch.h); else (shared memory has nothing to sleep on) it tests in bursts, yielding in between.
///   type_of_service   the IP headers of those connections carry it; none: they are left alone
///   connecting        is told whom this rank waits for; may be null
/// Throws LostRank if MPI fails.
std::unique_ptr<Transport> make_mpi_transport(std::optional<int> type_of_service = {},
                                              ConnectionWatch* connecting = nullptr);

}  // namespace laconic::dist
