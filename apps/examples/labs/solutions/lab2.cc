// Lab 2, solved.
#include "../labs.h"

namespace lab {
namespace {

class OverlapBackward final : public Buckets {
 public:
  explicit OverlapBackward(const WorkerSide& side) : Buckets(side), missing_(buckets()), tickets_(buckets()) {
    for (std::size_t b = 0; b < buckets(); ++b) missing_[b] = parameters_in(b);
  }

  void gradient_ready(Parameter& parameter, Rows) override {
    const std::size_t b = bucket_of(parameter);
    if (--missing_[b] == 0) send(b);
  }

  void end_step() override {
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
