#pragma once
// NCCL on the emulated device: ranks are threads of one process. Only what laconic calls, with NVIDIA's names and
// values.
#include "cuda_runtime.h"

#define NCCL_MAJOR 2
#define NCCL_UNIQUE_ID_BYTES 128

struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
using ncclComm_t = struct ncclComm*;
enum ncclResult_t {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7 };
enum ncclRedOp_t { ncclSum = 0 };

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { -1 }
/// Only of communicators that do not block. In progress until all ranks have come. ncclSystemError for the id of
/// another process, in the end ncclInvalidUsage if two ranks come with one device.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
/// What is in progress goes on here alone. Meanwhile all else but this and ncclCommAbort is refused: ncclInvalidUsage.
/// A communicator's first sum or group is in progress before it is work in the stream.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/// Operations of this rank end at once, without a result; what other ranks do with it never does.
ncclResult_t ncclCommAbort(ncclComm_t comm);
/// The n-th call of every rank is one operation: it happens when the streams of all ranks have come to it.
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream);
/// The n-th send of one rank to another and the n-th receive there are one message, which passes when the streams of
/// both have come to it; until then either stream stands. Ends the program if their sizes differ: NCCL would hang, or
/// worse.
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
/// What the calling thread sends and receives in between is one piece of work in its stream: it begins with all of its
/// messages and ends when all have passed. Groups nest; of one communicator and stream; no sums among them.
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

namespace emulated_cuda {
/// From now on, in all communicators:
///   never_joins   what is in progress stays so
///   hangs         a sum returns when its communicator is aborted, and not before
///   fails         ncclCommGetAsyncError finds an error of another rank
enum class NcclFault { none, never_joins, hangs, fails };
void break_nccl(NcclFault fault);
}  // namespace emulated_cuda
