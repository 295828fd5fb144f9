// Lab 2: buckets of gradients travel while backward goes on. docs/labs/2-backward.md
#include "labs.h"

namespace lab {
namespace {

class OverlapBackward final : public Buckets {
 public:
  explicit OverlapBackward(const WorkerSide& side) : Buckets(side), missing_(buckets()), tickets_(buckets()) {
    for (std::size_t b = 0; b < buckets(); ++b) missing_[b] = parameters_in(b);
  }

  /// Backward has finished the gradient of this parameter, and goes on with the next one when this returns.
  void gradient_ready(Parameter& parameter, Rows) override {
    --missing_[bucket_of(parameter)];
    // TO DO: send the bucket as soon as none of its gradients is missing.
  }

  void end_step() override {
    for (std::size_t b = 0; b < buckets(); ++b) send(b);  // TO DO: here it is too late
    for (std::size_t b = 0; b < buckets(); ++b) {
      engine().wait(tickets_[b]);
      update(b);
      missing_[b] = parameters_in(b);
    }
  }

 private:
  void send(std::size_t b) {
    const Slice<float> x = gradients_of(b);
    tickets_[b] = submit(b, [x](Communicator& comm) { return ring_allreduce(comm, x, 1); });
  }
  std::vector<int> missing_;     // by bucket: gradients that are not ready yet
  std::vector<Ticket> tickets_;  // by bucket: its allreduce
};

}  // namespace

std::unique_ptr<Strategy> overlap_backward(const WorkerSide& side) { return std::make_unique<OverlapBackward>(side); }

}  // namespace lab
