#pragma once
#include <algorithm>
#include <vector>

#include "compress/codecs/signs.h"
#include "dist/collective/alltoallv.h"
#include "dist/method/allreduce/allreduce_sync.h"
#include "dist/method/bucket_sync.h"
#include "dist/method/ledger_account.h"

namespace laconic::dist {

/// When gradients travel densely and change v: for `warmup` steps, at least 1; and then, if refresh > 0, so many times
/// after 1 step each, so many times after 2, after 4, ...
///   source   0/1 Adam (Lu et al. 2022): its steps T_v, refresh for kappa; settled: they begin after the warm-up
struct OnebitRules {
  std::int64_t warmup = 100, refresh = 0;

  bool dense(std::int64_t step) const;         ///< step : first 1
  std::int64_t seen(std::int64_t step) const;  ///< dense steps until this one, which counts
};

/// f(i, first, count) for the i-th parameter of a bucket, of which rank r of N averages elements
/// [first, first + count) of the bucket; without padding, and where there are some.
///   all : the parameters of the arena
template <class F>
void for_averaged(const Bucket& bucket, const std::vector<std::shared_ptr<Parameter>>& all, int r, int N, F f) {
  const std::int64_t begin = bucket.elements * r / N, end = bucket.elements * (r + 1) / N;
  for (int i = 0; i < bucket.count; ++i) {
    const Held held = held_by(bucket, all[static_cast<std::size_t>(bucket.first + i)]->info);
    const std::int64_t own = held.offset - bucket.offset;
    const std::int64_t first = std::max(begin, own), last = std::min(end, own + held.elements);
    if (first < last)
      f(static_cast<std::size_t>(i), static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  }
}

/// 1-bit Adam. It begins as Adam with dense gradients. Then the second moment v is frozen, and the first, m, travels:
/// its signs, and a magnitude for each parameter. Every worker averages one N-th of a bucket, and tells all others.
///
///     warm-up            Adam; AllreduceSync joins the gradients. So in the steps in which v is refreshed
///     worker i           x = beta1 m + (1 - beta1) g_i + e_i
///                        C(x), in one N-th to each worker            e_i = x - C(x)        alltoallv
///     for its N-th       a = (mean over i of what came) + e
///                        C(a), to all                                e = a - C(a)          allgatherv
///     all                m = C(a),  w -= lr m / (sqrt(v) + eps)
///
/// C (ScaledSigns) goes by the part of a parameter that lies in the N-th. m is the same on all workers. What both
/// compressions leave out stays in e_i and e, and goes with what comes next. Where v is 0 an element rests; all
/// other v are at least 1e-4 of the largest of their parameter (Optimizer::freeze_second_moment).
/// Bias corrections are Adam's, that of v by the gradients that v has seen; weight decay is the optimiser's: adam has
/// it in g_i, adamw apart. After a flush all ranks hold the same bits, if they began with the same, whatever the
/// overlap.
///   memory   e_i and e, both laid out like the arena, of e one N-th is used; on the host, where the parameters are a
///            GPU's
///   cost     2 (N-1)/N n/8 bytes sent by each of N ranks for n elements, and 8 bytes a parameter
///   source   1-bit Adam (Tang et al. 2021), Algorithm 1; 0/1 Adam (Lu et al. 2022); settled in
///            docs/papers/onebit-adam.md
///   throws   CommError if a rank is lost, or sends what is no part
class OnebitAdam final : public BucketSync {
 public:
  /// throws UsageError if side.moments are null
  OnebitAdam(WorkerSide side, const OnebitRules& rules);
  ~OnebitAdam() override { halt_what_is_under_way(); }

  void begin_step(const StepContext& context) override;
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override;
  void flush() override;
  Costs costs() const override;
  std::vector<LedgerRow> ledger() const override;
  double message_bytes() const override;

  /// "onebit-adam/errors", "onebit-adam/server_errors", and the ledger.
  void save(RankState& state) const override;
  /// throws DataError if that is of another model
  void load(const StateDict& state) override;

  const Tensor& errors() const { return errors_; }                ///< e_i, laid out like the arena; between steps
  const Tensor& server_errors() const { return server_errors_; }  ///< e, likewise

 private:
  struct Part {  // of a bucket: a parameter, or the bucket's rows of one
    Parameter& parameter;
    std::int64_t first, elements;  // of the bucket
    double bytes = 0;              // that this rank sends in a step
    EnergyAccount account;
  };
  struct Message {  // of a bucket
    std::vector<Part> parts;
    std::vector<compress::ScaledSigns> ranges;  // by rank that averages them
    std::size_t most_bytes = 0;                 // of a range
    std::vector<compress::Bytes> to;            // by rank
    Gathered from, averages;
    compress::Bytes average;
  };
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  void compress(std::size_t bucket);
  Task<> join(Communicator& comm, std::size_t bucket);
  void average(std::size_t bucket, int rank);
  void read(std::size_t bucket, float* momentum) const;
  void end_dense();
  bool on_ghosts() const { return arena().gradients().device() == kGhost; }

  const WorkerSide side_;
  const OnebitRules rules_;
  AllreduceSync dense_;
  Tensor errors_, server_errors_;
  std::vector<Message> messages_;  // by bucket
  bool dense_now_ = true;          // this step; before the first: nothing is under way
};

}  // namespace laconic::dist
