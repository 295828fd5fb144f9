// Lab 5: local SGD. docs/labs/5-local.md
#include "labs.h"

namespace lab {
namespace {

class LocalSgd final : public Local {
 public:
  LocalSgd(const WorkerSide& side, std::int64_t every) : Local(side), every_(every) {}

  /// After each backward.
  void end_step() override {
    if (step() % every_ != 0) return;
    // TO DO: make the updates that still wait, then replace all parameters by their mean over the workers.
    //   arena().values()   a Tensor: all parameters. Its memory: .slice()
    //   engine().run(name, [&](Communicator& comm) { return …; })   runs an exchange, and waits for it
    //   ring_allreduce(comm, slice)   sums over the workers
    //   raw::scale(tensor, factor)
    //   arena().changed()   tells the layers that their parameters are others
  }

 private:
  const std::int64_t every_;
};

}  // namespace

std::unique_ptr<Strategy> local_sgd(const WorkerSide& side, std::int64_t every) {
  return std::make_unique<LocalSgd>(side, every);
}

}  // namespace lab
