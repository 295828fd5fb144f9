#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compress/choose/selector.h"
#include "compress/sparse_message.h"
#include "dist/collective/allgatherv.h"
#include "dist/method/bucket_sync.h"
#include "dist/method/ledger_account.h"

namespace laconic::dist {

/// What can be set of it.
struct Ef21Rules {
  double density = 1e-3;           ///< share of a parameter's elements that is sent: k = max(1, ceil(density n)) of n
  std::string selector = "exact";  ///< the compressor C: one of compress::selectors() that goes by k
  double eta = 0.1;                ///< weight of the newest gradient in v, (0, 1]; 1: EF21 without momentum
};

/// Error feedback of 2021 with momentum. Each worker keeps an estimate h of its own momentum v, and sends how it
/// changes: the largest elements of v - h. All workers add up what all send, and so hold the mean of all h:
///
///     v = (1 - eta) v + eta gradient          each worker's own
///     c = the k largest of v - h,   h += c    of each parameter
///     g += mean over workers of c             allgatherv, added in rank order; g is equal on all workers
///     x by the ordinary update, with g for its gradient
///
/// The first step is dense: v = h = gradient, and g is their mean, by a ring. Afterwards g is the mean of h but for
/// roundings, and h comes nearer to v wherever v rests: unlike a residual, v - h is an error and no sum of gradients.
///
/// Every parameter sends a choice, and those of a bucket travel as one message; of a parameter that travels in chunks
/// of rows, these rows by themselves. After a flush all ranks hold the same bits, if they began with the same, whatever
/// the overlap.
///
///     message   n : u32 | sparse message of n bytes, its indices Rice-coded     again for each parameter of the bucket
///
///   memory  v, h and g; on the host, where the parameters are a GPU's
///   cost    (N-1) D n (4 + 12/8) bytes, or about that, sent by each of N ranks; selecting from n elements
///   source  EF21-SGDM (Fatkhullin, Tyurin, Richtarik 2023), Algorithm 1, whose g_i is h here; EF21 (Richtarik, Sokolov
///           and Fatkhullin 2021). Settled: B_init is the batch of the first step, and C looks at each parameter by
///           itself
///   throws  Error naming the parameter if there is a NaN; CommError if a rank is lost, or naming the rank whose
///           message is none
class Ef21 final : public BucketSync {
 public:
  Ef21(WorkerSide side, const Ef21Rules& rules);
  ~Ef21() override { halt_what_is_under_way(); }

  std::vector<LedgerRow> ledger() const override;
  double message_bytes() const override;

  /// "ef21/v", "ef21/h", "ef21/g"; the selector and the ledger of every parameter. Other numbers of workers go on with
  /// the means of v and h.
  void save(RankState& state) const override;
  /// throws DataError if that is of another model
  void load(const StateDict& state) override;

  /// h, and the joint g, laid out like the arena; between steps.
  const Tensor& estimate() const { return h_; }
  const Tensor& joint() const { return g_; }

  /// Bytes that a worker sends in a step after the first.
  static double expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                               const Ef21Rules& rules, int workers);

 private:
  struct Run {  // of a bucket: a parameter, or the bucket's rows of one
    Parameter& parameter;
    std::string name;
    Tensor gradient, v, h, g;  // its parts of the arenas
    std::size_t k, most;       // elements; bytes of its message
    std::unique_ptr<compress::Selector> selector;
    LedgerAccount account;
    std::size_t size() const { return static_cast<std::size_t>(v.elements()); }
  };
  struct Message {  // of a bucket
    std::vector<Run> runs;
    std::size_t most = 0;
    compress::Bytes packet;
    Gathered all;
  };
  bool is_first(std::size_t bucket) const { return context_of(bucket).update() == 1; }
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  void begin(Run& run);
  void choose(Run& run, std::size_t bucket);
  void add_received(std::size_t bucket);

  const WorkerSide side_;
  const Ef21Rules rules_;
  const Tensor v_, h_, g_;
  std::vector<Message> messages_;  // by bucket
  Tensor difference_;              // v - h of one run
  compress::Selection chosen_;
  compress::Bytes part_;
  std::vector<compress::SparseView> views_;  // by rank
};

}  // namespace laconic::dist
