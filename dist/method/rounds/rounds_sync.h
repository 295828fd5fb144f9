#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dist/method/allreduce_sync.h"
#include "dist/method/none/no_sync.h"
#include "dist/method/rounds/pair_sync.h"
#include "dist/method/rounds/top_k.h"

namespace laconic::dist {

/// Rounds of local steps: every worker trains by itself, and now and then all join what they have learned since. Each
/// worker has the outer model x besides its own, w. They begin alike; x has the same bits on all workers always, but
/// with pairs.
///
///     every step                 w = the worker's own update of w, by its own gradient
///     after H steps              d = x - w starts on its way: the pseudo-gradient, summed by AllreduceSync; or the
///                                largest elements of it and of what is left of earlier ones, summed by TopK;
///                                or it meets that of one other worker only, and the two x pull each other: PairSync
///     TAU steps later            D = mean of d over the workers, weighed by the samples that each has
///                                seen in the round
///                                v = m v + D
///                                with pairs: mean over the pair, + (GAMMA / lr) (x - mean of x over the pair)
///                                x -= lr D  (sgd),  lr v  (momentum),  lr (D + m v)  (nesterov)
///                                w = ALPHA w + (1 - ALPHA) x
///
/// The parameters may be divided into fragments, neighbours of about equal size that end their rounds one after the
/// other, H / P steps apart. No exchange sees another's, so that P fragments and a delay spread one round's bytes over
/// all its steps. The state of the workers' optimisers stays where it is and is not joined.
///
/// Values are taken over before the parameter's next forward, at a step that is fixed beforehand, whenever the messages
/// have come: neither overlap, nor a flush, nor a stop changes a bit. The joint model, which is evaluated and saved, is
/// the mean of the workers' models as they are at that step, weighed by the samples that each has seen since all held
/// the same. So nothing that they have learned in a round that has not ended is left out.
///
/// A worker without samples steps by zeros, so its w moves by momentum and weight decay alone. Its d counts nothing, as
/// its gradient does in a dense step: a round of one step of plain SGD is one, in a short batch too.
///
///   cost    of memory: x, d, v if there is momentum, and with pairs what comes, each a copy of the parameters. Of
///           time: when a round ends, d is computed (3 passes over it), and when it comes, x and w (2 to 7 passes)
///   throws  what AllreduceSync and TopK throw; UsageError if there are more fragments than the plan has messages
///   source  Stich 2019 (local SGD: sgd, lr 1), Lin et al. 2020 (post-local SGD: dense steps first), Wang et al. 2020
///           (SlowMo: momentum; the same while the inner rate is constant), Douillard et al. 2023 (DiLoCo: nesterov, lr
///           0.7, m 0.9) and 2025 (Streaming DiLoCo: fragments, TAU, ALPHA; its Algorithm 2), Sarfi et al. 2025
///           (SparseLoCo: chosen), Kolehmainen et al. 2025 (NoLoCo: pairs)
class RoundsSync final : public Strategy {
 public:
  struct Rules {
    std::int64_t every = 8;       ///< H
    std::int64_t fragments = 1;   ///< P
    std::int64_t delay = 0;       ///< TAU, less than H
    double mix = 0;               ///< ALPHA, the share of its own values that a worker keeps
    double lr = 1, momentum = 0;  ///< of the outer model
    bool nesterov = false;
    std::int64_t dense_steps = 0;                ///< at the beginning: every step's gradients are joined
    std::optional<compress::TopKWire> chosen{};  ///< what is sent of d; nothing: all
    double feedback = 0;                         ///< BETA, by which what was not sent shrinks from round to round
    bool pairs = false;  ///< D is of two workers, who change from round to round; nothing may be chosen then
    double pull = 0;     ///< GAMMA: of the distance of x from its pair's mean so much is made up for in a round
  };
  /// side.update : the worker's own, also of dense steps
  RoundsSync(WorkerSide side, const Rules& rules);

  void begin_step(const StepContext& context) override;
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override;
  /// Waits for all messages. Values whose step has not come yet are not taken over. Between begin_step and end_step
  /// only the worker's own updates are made: the trainer may ask for them before it limits the gradient's length.
  void flush() override;
  Costs costs() const override;
  double message_bytes() const override;
  void show_joint_model() override;
  void hide_joint_model() override { joint_.hide(); }
  std::optional<double> drift() const override { return joint_.drift(); }
  std::optional<double> weight_in_mean(const Parameter& p) const override;

 private:
  bool dense() const { return began_ < 0 && context_.step <= rules_.dense_steps; }
  std::unique_ptr<BucketSync> make_exchange(const WorkerSide& side);
  void divide();
  void make_table();
  bool ends_round(std::size_t fragment) const;
  double weight_of_change(std::size_t fragment) const;
  void send(std::size_t fragment);
  void outer_step(const Parameter& outer, Rows rows, double scale);
  void take_over(const Parameter& own, Rows rows);
  Parameter& outer_of(const Parameter& own) const {
    return *outer_.parameters()[static_cast<std::size_t>(own.info.index)];
  }
  std::size_t fragment_of(const Parameter& p) const { return fragments_[static_cast<std::size_t>(p.info.index)]; }

  const Rules rules_;
  const ParameterArena& arena_;
  Engine& engine_;
  const std::uint64_t seed_;
  const ParameterArena outer_;                  // x, and in the place of gradients d
  const Tensor velocity_;                       // v; undefined without momentum
  std::optional<AllreduceSync> dense_;          // the exchange of dense steps, if there are any
  const std::unique_ptr<BucketSync> exchange_;  // of d; its update is the outer step
  NoSync own_;                                  // the workers' own updates
  NoSync arriving_;                             // sent, and not taken over yet
  JointModel joint_;
  std::vector<std::size_t> fragments_;  // by place in the arena
  std::vector<std::int64_t> due_;       // by fragment: after this step it is taken over; 0: never sent
  /// Samples by worker. All know all of them.
  struct Seen {
    std::vector<std::int64_t> since_sent, since_equal;
  };
  std::vector<Seen> seen_;  // by fragment
  StepContext context_;
  bool learned_ = false;   // gradients have come in this step: it is not passed over
  std::int64_t done_ = 0;  // the last step that has ended
  /// The step after which rounds began; -1: not yet. Other workers have other steps an epoch, but rounds go on where
  /// they were.
  std::int64_t began_ = -1;
};

}  // namespace laconic::dist
