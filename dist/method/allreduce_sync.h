#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compress/codec.h"
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/cuda/nccl.h"
#include "dist/method/bucket_sync.h"

namespace laconic::dist {

/// The sum over ranks, as the plan has it for this bucket.
Task<> allreduce(Communicator& comm, Slice<float> x, const Bucket& bucket, const Hops& hops);

/// throws UsageError if these allreduces do not bear this codec
void require_codec_fits(const PlanOptions& plan);

/// Bytes that a step's gradients are on the network, the mean over N ranks; an estimate with a codec. Returns nothing
/// if NCCL itself moves some.   throws UsageError if the plan's codec is not in this build
std::optional<double> bytes_of_step(const Plan& plan, int N);

/// Dense gradient exchange, hidden behind backward and the next forward. Buckets go straight from the arena, or are
/// copied into a buffer, if the plan says so; what came is updated before its next forward. The sum stays a sum: 1/N is
/// a factor of the update. Large weights are finished and awaited in chunks of rows.
/// After a flush all ranks hold the same bits, if they began with the same.
/// With a codec in the plan it passes through it on every hop; a rank alone encodes nothing. Each rank may keep what
/// its own encoding loses, and add it when it encodes the same element again (error feedback). With a codec NCCL does
/// not sum, but carries the messages of a ring in one piece.
/// throws  UsageError if the plan wants NCCL, and there is not a GPU for each rank
///         CommError from before_forward, end_step or flush if a rank is lost
/// source  HybridAR (overlap through the next forward); PyTorch DDP (buckets)
class AllreduceSync : public BucketSync {
 public:
  /// Arena and engine must outlive the strategy. All ranks of the engine are workers. It takes from the facts
  /// how gradients are joined: `mean`, `overlap`, the codec's `seed` and feedback.
  AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update, const TrainingFacts& facts = {});
  /// Halts the engine if gradients are still under way (an exception passes): it must not work in a freed arena.
  ~AllreduceSync() override { halt_what_is_under_way(); }

  /// If the plan wants it and there is more than one rank, else null: for what else is to travel by it.
  const std::shared_ptr<Nccl>& nccl() const { return nccl_; }
  /// Whether it carries this bucket, or what else the plan's words for the bucket are asked for.
  bool by_nccl(const Bucket& bucket) const { return nccl_ != nullptr && bucket.carrier() == Carrier::nccl; }
  /// x becomes its sum over ranks, as the plan has it for this bucket, without a codec. In an operation that is
  /// in_order where NCCL carries the bucket.
  Task<> sum(Communicator& comm, Slice<float> x, const Bucket& bucket);
  /// Calls `hand_over` now, or when all of NCCL's buckets before this one have had their turn in this step: NCCL pairs
  /// what ranks ask for by order alone, and a rank whose share of a batch is empty has its gradients ready in another
  /// order than those that ran a backward. Each bucket has one turn a step; a null function only takes it.
  void in_turn(std::size_t bucket, std::function<void()> hand_over);
  /// The same for a parameter that has something else sent by NCCL: when its first bucket has its turn. The others take
  /// theirs.
  void in_turn_of(const Parameter& parameter, std::function<void()> hand_over);

  void begin_step(const StepContext& context) override;
  Costs costs() const override;
  double message_bytes() const override;
  /// Of these buckets alone.
  double message_bytes(const std::function<bool(const Bucket&)>& which) const;

 private:
  void hand_over(std::size_t bucket) override;
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  Hops hops(std::size_t bucket, Slice<float> x) const;
  Slice<float> gathered(std::size_t bucket);
  void scatter(std::size_t bucket);
  /// f(parameter, elements of the bucket before it): where it begins if they lie without padding.
  template <class F>
  void for_packed(const Bucket& bucket, F f) const {
    std::int64_t before = 0;
    for (const auto& p : parameters_of(bucket)) f(p->info, std::exchange(before, before + p->info.elements));
  }
  Tensor repacked(const Tensor& losses, bool packs) const;

  Update update_;
  const std::uint64_t seed_;                            // of a codec that rounds at random
  const std::unique_ptr<const compress::Codec> codec_;  // null: plain floats
  std::shared_ptr<Nccl> nccl_;                          // if the plan wants it
  std::vector<std::size_t> turns_;                      // buckets that travel by it, ascending
  std::size_t next_turn_ = 0;                           // all before have had theirs in this step
  std::map<std::size_t, std::function<void()>> early_;  // buckets that wait for theirs
  Tensor lost_;                                         // with feedback
  std::vector<Tensor> buffers_;                         // by bucket, of one that is copied, while under way
  std::uint64_t copied_bytes_ = 0, copied_bytes_peak_ = 0;
};

}  // namespace laconic::dist
