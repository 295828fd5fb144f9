// Lab 3, solved.
#include "../labs.h"

namespace lab {
namespace {

class OverlapForward final : public Buckets {
 public:
  explicit OverlapForward(const WorkerSide& side) : Buckets(side), missing_(buckets()), tickets_(buckets()) {
    for (std::size_t b = 0; b < buckets(); ++b) missing_[b] = parameters_in(b);
  }

  void gradient_ready(Parameter& parameter, Rows) override {
    const std::size_t b = bucket_of(parameter);
    if (--missing_[b] > 0) return;
    const Slice<float> x = gradients_of(b);
    tickets_[b] = submit(b, [x](Communicator& comm) { return ring_allreduce(comm, x, 1); });
  }

  void before_forward(Parameter& parameter, Rows) override {
    const std::size_t b = bucket_of(parameter);
    if (tickets_[b].valid()) finish(b);
  }

  void end_step() override {}  // forward waits for what it needs

  void flush() override {
    for (std::size_t b = buckets(); b-- > 0;)
      if (tickets_[b].valid()) finish(b);
  }

 private:
  void finish(std::size_t b) {
    engine().wait(tickets_[b]);
    tickets_[b] = {};  // of nothing: valid() is false
    update(b);
    missing_[b] = parameters_in(b);
  }
  std::vector<int> missing_;     // by bucket: gradients that are not ready yet
  std::vector<Ticket> tickets_;  // by bucket: its allreduce, from send to update
};

}  // namespace

std::unique_ptr<Strategy> overlap_forward(const WorkerSide& side) { return std::make_unique<OverlapForward>(side); }

}  // namespace lab
