#pragma once
/// What is called of NCCL (core/cuda/libraries.h).
#define LACONIC_NCCL(F)     \
  F(ncclGetErrorString)     \
  F(ncclGetUniqueId)        \
  F(ncclCommInitRankConfig) \
  F(ncclCommGetAsyncError)  \
  F(ncclCommFinalize)       \
  F(ncclCommDestroy)        \
  F(ncclCommAbort)          \
  F(ncclAllReduce)          \
  F(ncclSend)               \
  F(ncclRecv)               \
  F(ncclGroupStart)         \
  F(ncclGroupEnd)
