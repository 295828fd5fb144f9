#pragma once
#include <laconic/core/host_copy.h>
#include <laconic/core/raw.h>
#include <laconic/dist/collective/reduce.h>
#include <laconic/dist/collective/ring_allreduce.h>
#include <laconic/dist/engine/engine.h>
#include <laconic/dist/method/method.h>
#include <laconic/dist/method/none/no_sync.h>

#include <cstdint>
#include <memory>
#include <vector>

/// What the labs of docs/labs share. The places to fill in are in lab1.cc to lab5.cc; frame/ has the checks.
namespace lab {
using namespace laconic;
using namespace laconic::dist;

/// One element of a gradient, as lab 4 sends it: 8 bytes.
struct Element {
  std::uint32_t index;
  float value;
};

// What you write.
Task<> allreduce(Communicator& comm, Slice<float> x);                                            // lab1.cc
std::unique_ptr<Strategy> overlap_backward(const WorkerSide& side);                              // lab2.cc
std::unique_ptr<Strategy> overlap_forward(const WorkerSide& side);                               // lab3.cc
std::vector<Element> choose(Slice<const float> gradient, Slice<float> residual, std::size_t k);  // lab4.cc
std::unique_ptr<Strategy> local_sgd(const WorkerSide& side, std::int64_t every);                 // lab5.cc

/// The base of labs 2 and 3. The gradients of a model lie in buckets: neighbours in memory that travel as one message.
/// Bucket 0 is the first that backward finishes, and the last that forward needs. In a step the trainer calls
///
///   before_forward(p, …)   when forward is about to read parameter p, from the first layer to the last
///   gradient_ready(p, …)   when backward has finished the gradient of p, from the last layer to the first
///   end_step()             after backward
///
/// and flush() before it looks at the parameters itself: afterwards nothing is under way.
class Buckets : public Strategy {
 public:
  /// throws UsageError unless the model is on the CPU
  explicit Buckets(const WorkerSide& side);
  /// Halts what is under way if an exception passes: nobody may work in memory that goes.
  ~Buckets() override { engine_.halt(); }

  void begin_step(const StepContext& context) override;
  void gradient_ready(Parameter&, Rows) override {}
  void before_forward(Parameter&, Rows) override {}
  void flush() override {}

 protected:
  Engine& engine() const { return engine_; }
  std::size_t buckets() const { return plan_.buckets.size(); }  ///< how many there are
  std::size_t bucket_of(const Parameter& p) const;
  int parameters_in(std::size_t b) const { return plan_.buckets[b].count; }
  Slice<float> gradients_of(std::size_t b) const;

  /// Hands work on bucket b to the communication thread, and returns at once. Buckets that forward needs sooner go
  /// first. Leave gradients_of(b) alone until engine().wait(ticket) has returned.
  Ticket submit(std::size_t b, std::function<Task<>(Communicator&)> work);
  /// The sums over all workers stand in gradients_of(b): updates the parameters of the bucket by their mean.
  void update(std::size_t b);

 private:
  const ParameterArena& arena_;
  Engine& engine_;
  const Plan plan_;
  const Update update_;
  const double scale_;
  const int first_slot_;
  StepContext context_;
  std::vector<StepContext> context_of_;  // of the step whose gradients a bucket holds
};

/// The base of lab 5: each worker makes its own updates, the last of them when forward needs it or flush() is called.
class Local : public NoSync {
 public:
  explicit Local(const WorkerSide& side);
  void begin_step(const StepContext& context) override;
  // For evaluations: the mean over workers, in the place of each worker's own parameters.
  void show_joint_model() override;
  void hide_joint_model() override { joint_.hide(); }
  std::optional<double> drift() const override { return joint_.drift(); }

 protected:
  Engine& engine() const { return engine_; }
  const ParameterArena& arena() const { return arena_; }  ///< values(): all parameters, one after the other
  std::int64_t step() const { return step_; }             ///< from 1

 private:
  const ParameterArena& arena_;
  Engine& engine_;
  JointModel joint_;
  std::int64_t step_ = 0;
};

/// What lab 4 does with the elements that you choose: afterwards all[r] holds those of rank r. All ranks have equally
/// many. Everything is sent at once, so that the latency counts once.
///   cost   alpha + (N-1) 8 k beta
///   throws CommError if a rank has another number of them
Task<> gather(Communicator& comm, const std::vector<Element>& mine, std::vector<std::vector<Element>>& all);

}  // namespace lab
