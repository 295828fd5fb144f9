#include "dist/cuda/nccl.h"

#include <nccl.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/libraries.h"
#include "core/cuda/select.h"
#include "dist/collective/allgather.h"
#include "dist/collective/broadcast.h"
#include "dist/engine.h"

namespace laconic::dist {
namespace {

#define LACONIC_NCCL(F) \
  F(ncclGetErrorString) \
  F(ncclGetUniqueId)    \
  F(ncclCommInitRank)   \
  F(ncclCommDestroy)    \
  F(ncclCommAbort)      \
  F(ncclAllReduce)
struct Functions {
  LACONIC_NCCL(LACONIC_LIBRARY_POINTER)
};

using laconic::cuda::Library;
#define LACONIC_NCCL_TEXT(x) #x
#define LACONIC_NCCL_VALUE(x) LACONIC_NCCL_TEXT(x)
LACONIC_LIBRARY(Functions, nccl, LACONIC_NCCL, "NCCL", "libnccl.so." LACONIC_NCCL_VALUE(NCCL_MAJOR))

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) [[likely]]
    return;
  throw Error(concat("nccl: ", what, ": ", nccl().ncclGetErrorString(result), "."));
}

/// "HOST, bus 0000:01:00.0", or why this rank cannot take part, after '!'.
std::string place_of(Device device) {
  try {
    require<UsageError>(device.kind == Device::Kind::cuda, "NCCL joins GPUs, and this model is on ", device,
                        " (--allreduce nccl): add --device cuda, or take --allreduce ring");
    nccl();
    char bus[32] = "", host[256] = "";
    laconic::cuda::check(cudaDeviceGetPCIBusId(bus, sizeof bus, device.index), "asking where a device is");
    gethostname(host, sizeof host - 1);
    return concat(host, ", bus ", bus);
  } catch (const Error& e) {
    return concat("!", e.what());
  }
}

/// Every rank finds the same, so that none is left waiting.
void require_a_gpu_each(const std::vector<std::string>& places) {
  std::map<std::string, std::size_t> owners;
  for (std::size_t r = 0; r < places.size(); ++r) {
    require<UsageError>(!places[r].starts_with('!'), places[r].substr(1));
    const auto [it, fresh] = owners.emplace(places[r], r);
    require<UsageError>(fresh, "NCCL needs a GPU for each rank, and ranks ", it->second, " and ", r, " share one (",
                        places[r],
                        ") (--allreduce nccl): start fewer ranks, on more machines, or take --allreduce ring");
  }
}

class NcclRing final : public Nccl {
 public:
  NcclRing(Engine& engine, Device device, ncclComm_t comm) : engine_(engine), device_(device), comm_(comm) {
    engine_.at_failure([this] { abort(); });
  }
  ~NcclRing() override {
    engine_.at_failure({});
    try {
      synchronize(device_);
    } catch (const std::exception&) {
      // Told to whoever waited before.
    }
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) nccl().ncclCommDestroy(comm_);
  }

  void allreduce(Slice<float> x) override {
    const std::lock_guard lock(mutex_);
    require<CommError>(comm_ != nullptr, "nccl: stopped, since a rank has failed.");
    if (x.empty()) return;
    laconic::cuda::select(device_.index);
    check(nccl().ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm_, laconic::cuda::stream()),
          "summing");
  }

 private:
  void abort() {
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) nccl().ncclCommAbort(std::exchange(comm_, nullptr));
  }

  Engine& engine_;
  const Device device_;
  std::mutex mutex_;
  ncclComm_t comm_;
};

}  // namespace

std::shared_ptr<Nccl> Nccl::make(Engine& engine, Device device) {
  const std::string mine = place_of(device);
  std::vector<std::string> places;
  ncclUniqueId id{};
  engine.run("meeting for NCCL", [&](Communicator& comm) { return allgather_blobs(comm, mine, places); });
  require_a_gpu_each(places);
  if (engine.rank() == 0) check(nccl().ncclGetUniqueId(&id), "starting");
  const Slice<std::byte> bytes(reinterpret_cast<std::byte*>(&id), sizeof id);
  engine.run("meeting for NCCL", [&](Communicator& comm) { return broadcast(comm, bytes); });
  laconic::cuda::select(device.index);
  ncclComm_t comm = nullptr;
  check(nccl().ncclCommInitRank(&comm, engine.size(), id, engine.rank()), "starting");
  return std::make_shared<NcclRing>(engine, device, comm);
}

}  // namespace laconic::dist
