#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "dist/collective/reduce.h"
#include "dist/cuda/nccl.h"
#include "tests/cuda_devices.h"
#include "tests/on_ranks.h"

namespace laconic::dist {

/// Ranks that are threads, with a device each.
class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_CUDA();
    if (cuda_devices() < 2) GTEST_SKIP() << "fewer than two CUDA devices can be used here";
  }
  static std::vector<int> sizes(int most = 3) {
    std::vector<int> sizes;
    for (int N = 2; N <= std::min(most, cuda_devices()); ++N) sizes.push_back(N);
    return sizes;
  }
};
inline Device own_device(const Worker& w) { return {Device::Kind::cuda, w.rank}; }

/// A rank and its NCCL: f happens on the communication thread, in order.
struct NcclRank {
  explicit NcclRank(Worker& w)
      : worker(w), slot(w.engine.reserve_slots(1)), nccl(Nccl::make(w.engine, own_device(w))) {}
  Ticket submit(std::function<void(Communicator&)> f) {
    return worker.engine.submit({.name = "what a test asks for",
                                 .slot = slot,
                                 .device = own_device(worker),
                                 .in_order = true,
                                 .body = [f = std::move(f)](Communicator& comm) -> Task<> {
                                   f(comm);
                                   co_return;
                                 }});
  }
  void ask(std::function<void(Communicator&)> f) { worker.engine.wait(submit(std::move(f))); }
  Worker& worker;
  int slot;
  std::shared_ptr<Nccl> nccl;
};

}  // namespace laconic::dist
