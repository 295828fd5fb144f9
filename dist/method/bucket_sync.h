#pragma once
#include <span>
#include <string>
#include <vector>

#include "dist/engine/engine.h"
#include "dist/engine/ghost_work.h"
#include "dist/method/method.h"
#include "dist/plan/plan.h"

namespace laconic::dist {

/// The rows of a parameter that a bucket holds: all, or some if it is the only one.
Rows rows_of(const Bucket& bucket, const Parameter& parameter);

/// The base of strategies that exchange dense buckets of a plan. A bucket is handed to the engine when the gradients of
/// all its rows are ready; before a parameter's next forward the compute thread waits for its bucket only. What
/// travels, and what is done with what came, is in classes derived from this one. throws  CommError from
/// before_forward, end_step or flush if a rank is lost
class BucketSync : public Strategy {
 public:
  ~BucketSync() override;
  const Plan& plan() const { return plan_; }

  void begin_step(const StepContext& context) override;
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override;
  void flush() override;
  Costs costs() const override;

 protected:
  /// Arena and engine must outlive the strategy. Takes one slot of the engine per bucket, and tells the parameters the
  /// rows in which they are to come (Parameter::set_chunk_rows). `name` is for errors, `workers` how many gradients are
  /// joined.
  BucketSync(const ParameterArena& arena, Engine& engine, Plan plan, std::string name, const TrainingFacts& facts,
             int workers);

  /// Its last gradient is there. Compute thread.
  virtual void filled(std::size_t) {}
  /// With overlap, after that: submits it, now or later in the step. Compute thread.
  virtual void hand_over(std::size_t bucket) { submit(bucket); }
  /// Makes the operation between ranks. The caller sets slot and priority. Compute thread.
  virtual Operation exchange(std::size_t bucket) = 0;
  /// It has been done: updates what the bucket holds. Compute thread.
  virtual void arrived(std::size_t bucket) = 0;

  /// The name in checkpoints of what encoding has lost so far, laid out like the arena, and its name in errors.
  static constexpr const char *kLost = "codec.lost", *kWhatIsLost = "what the codec has lost";

  /// Halts the engine if anything is under way, because an exception passes: it must not work in memory that goes. For
  /// destructors of derived classes.
  void halt_what_is_under_way();

  const ParameterArena& arena() const { return arena_; }
  Engine& engine() const { return engine_; }
  Parameter& parameter(int place) const { return *arena_.parameters()[static_cast<std::size_t>(place)]; }
  const Bucket& bucket(std::size_t b) const { return plan_.buckets[b]; }
  const StepContext& context_of(std::size_t b) const { return states_[b].context; }
  const StepContext& context() const { return context_; }  ///< of the step that is under way
  Join put_by() const { return put_by_; }                  ///< TrainingFacts::put_by
  int first_slot() const { return first_slot_; }
  std::span<const std::shared_ptr<Parameter>> parameters_of(const Bucket& bucket) const {
    return std::span(arena_.parameters())
        .subspan(static_cast<std::size_t>(bucket.first), static_cast<std::size_t>(bucket.count));
  }
  void submit(std::size_t bucket);
  std::int64_t elements_in(const Bucket& bucket) const;  ///< without padding
  /// The bucket's part of an arena, padding between its parameters included.
  static Slice<float> part(const Tensor& state, const Bucket& bucket);
  Tensor part_of(const Tensor& state, std::size_t b) const { return state.range(bucket(b).offset, bucket(b).elements); }
  /// f(parameter, rows) for all that a bucket holds.
  template <class F>
  void for_parts(std::size_t b, F f) const {
    for (const auto& p : parameters_of(bucket(b))) f(*p, rows_of(bucket(b), *p));
  }

  double select_seconds_ = 0, update_seconds_ = 0;
  /// Memory of each bucket's messages when it last arrived; in between the communication thread has their buffers.
  std::vector<std::size_t> buffer_bytes_;

 private:
  struct State {  // of one bucket
    enum class Phase : std::uint8_t { filling, ready, under_way } phase = Phase::filling;
    std::int64_t waits_for = 0;  // elements whose gradient is not ready yet
    Ticket ticket;
    StepContext context;
  };
  void submit_ready();
  void finish(std::size_t bucket);
  /// f(bucket) for every bucket that holds some of these rows.
  template <class F>
  void for_buckets(const Parameter& parameter, Rows rows, F f);

  const ParameterArena& arena_;
  Engine& engine_;
  const Plan plan_;
  const std::string name_;
  const Overlap overlap_;
  const double scale_;
  const Join put_by_;
  StepContext context_;
  std::vector<State> states_;  // by bucket
  int first_slot_;
};

}  // namespace laconic::dist
