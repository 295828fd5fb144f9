#pragma once
#include <string>

#include "dist/communicator.h"

namespace laconic::dist {

/// The transport's own allreduce, for comparison: afterwards x holds the sum over ranks, on every rank.
///
/// Who sends what is the vendor's secret, so there is no cost function, and the bytes are not in the accounting. Its
/// operations match by slot, as all others do, if every slot was prepared; slot 0 needs no preparation. Not for
/// subgroups.
/// throws  UsageError if the transport has none (threads of one process) or the slot was not prepared; CommError
Task<> native_allreduce(Communicator& comm, Slice<float> x);

/// Makes slots [first, first + count) ready for native_allreduce, with one of the vendor's algorithms. All ranks
/// together, once, before the first use: `engine.run("prepare", [&](Communicator& c) { return prepare_native(c, first,
/// count); })`. Over Open MPI `algorithm` is
///     ""           MPI_Iallreduce, as Open MPI chooses
///     "blocking"   MPI_Allreduce, as Open MPI chooses: nothing else moves meanwhile
///     "blocking:A" MPI_Allreduce by algorithm A of its component `tuned`: basic_linear, nonoverlapping,
///                  recursive_doubling, ring, segmented_ring or rabenseifner. Open MPI must have been told
///                  before it started, by OMPI_MCA_coll_tuned_use_dynamic_rules=1, that it will be chosen
/// throws  UsageError if the transport has none, or not this one
Task<> prepare_native(Communicator& comm, int first, int count, std::string algorithm = "");

}  // namespace laconic::dist
