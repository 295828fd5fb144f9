#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/slice.h"
#include "dist/collective/cost.h"

namespace laconic {

using dist::LinkModel;

/// Something that was timed and has a cost function.
struct Timed {
  dist::Cost cost;
  double seconds = 0;
};

/// The alpha, beta, gamma >= 0 with the least sum of squared RELATIVE errors, so that microseconds count as much as
/// milliseconds. Where the measurements do not tell two of them apart, one may be 0. Without measurements all are 0.
LinkModel fit_link(const std::vector<Timed>& measured);

/// MPI's own allreduce, to compare ours with. Made and used on the communication thread of ranks that MPI has started,
/// by all of them together. Nothing else moves during a sum.
class MpiSums {
 public:
  virtual ~MpiSums() = default;
  /// x becomes the sum over all ranks, on every rank.   x : fewer than 2^31 values in host memory
  virtual void sum(Slice<float> x) = 0;
};

/// Makes one by `algorithm`:
///     ""              MPI_Allreduce, as Open MPI chooses
///     "nonblocking"   MPI_Iallreduce, as Open MPI chooses, and a wait for it
///     A               MPI_Allreduce by algorithm A of Open MPI's component `tuned`: basic_linear, nonoverlapping,
///                     recursive_doubling, ring, segmented_ring or rabenseifner. Open MPI must have been told before it
///                     started, by OMPI_MCA_coll_tuned_use_dynamic_rules=1, that it will be chosen
/// throws UsageError if there is no such algorithm, or none can be chosen; Error in a build without MPI
std::unique_ptr<MpiSums> make_mpi_sums(const std::string& algorithm);

}  // namespace laconic
