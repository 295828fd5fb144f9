// Lab 5, solved.
#include "../labs.h"

namespace lab {
namespace {

class LocalSgd final : public Local {
 public:
  LocalSgd(const WorkerSide& side, std::int64_t every) : Local(side), every_(every) {}

  void end_step() override {
    if (step() % every_ != 0) return;
    flush();
    const Tensor& values = arena().values();
    engine().run("mean of all", [&](Communicator& comm) { return ring_allreduce(comm, values.slice()); });
    raw::scale(values, 1.0f / static_cast<float>(engine().size()));
    arena().changed();
  }

 private:
  const std::int64_t every_;
};

}  // namespace

std::unique_ptr<Strategy> local_sgd(const WorkerSide& side, std::int64_t every) {
  return std::make_unique<LocalSgd>(side, every);
}

}  // namespace lab
