#pragma once
#define OMPI_SKIP_MPICXX 1  // the C interface only: the old C++ one does not pass -Wextra
#include <mpi.h>

#include <map>
#include <string>

#include "dist/communicator.h"

namespace laconic::dist {

/// Throws LostRank with MPI's own text if `call` returned a `code` other than MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// MPI's own allreduce, for comparison (collective/native_allreduce.h names the algorithms). Every slot has an MPI
/// communicator of its own: MPI matches collectives by the order in which they are called on one communicator, while
/// operations of different slots may start in different orders on different ranks.
class MpiNative {
 public:
  explicit MpiNative(MPI_Comm base) : base_(base) {}
  ~MpiNative();
  MpiNative(const MpiNative&) = delete;
  MpiNative& operator=(const MpiNative&) = delete;

  void prepare(int first, int count, const std::string& algorithm);
  /// The request that MPI completes later, or none if it has completed `request` already.
  MPI_Request start(Request& request);

 private:
  struct Slot {
    MPI_Comm comm = MPI_COMM_NULL;
    bool blocking = false;
  };
  MPI_Comm base_;
  std::map<int, Slot> slots_;
};

}  // namespace laconic::dist
