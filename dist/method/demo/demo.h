#pragma once
#include <vector>

#include "dist/collective/allgatherv.h"
#include "dist/method/bucket_sync.h"
#include "dist/method/demo/chunks.h"
#include "dist/method/ledger_account.h"

namespace laconic::dist {

/// What can be set of it.
struct DemoRules {
  std::int64_t side = 64;  ///< s: a chunk has at most s by s elements
  std::int64_t most = 32;  ///< k: coefficients of a chunk that travel
  double decay = 0.999;    ///< beta
  bool sign = true;        ///< the update goes by the sign of what has come, else by its sum over workers
};

/// Decoupled momentum. Each worker has a momentum m of its own. The largest coefficients of each chunk's cosine
/// transform travel, and leave the momentum; all others stay, and go on to grow.
///
///     m = beta m + g
///     q = the k coefficients of each chunk of m that are largest,   m -= inverse DCT of q
///     Q = inverse DCT of the sum of all workers' q                  allgatherv
///     g = sign(Q), or Q, and the ordinary update                    sign(0) = 0; NaN stays
///
/// All parameters are sent in this way (Chunks), each by itself, in the plan's buckets; of a parameter that travels in
/// chunks of rows, these rows by themselves. After a flush all ranks hold the same bits, if they began with the same,
/// whatever the overlap.
///   memory  m; on the host, where the parameters are a GPU's
///   cost    (N-1) 6 k bytes sent by each of N ranks for a chunk
///   source  DeMo (Peng, Quesnelle, Kingma 2024), Algorithm 1; settled: momentum gathers gradients without the learning
///           rate, and parts are nearly equal, where its code looks for divisors
///   throws  CommError if a rank is lost, or sends what is no message
class Demo final : public BucketSync {
 public:
  Demo(WorkerSide side, DemoRules rules);
  ~Demo() override { halt_what_is_under_way(); }

  std::vector<LedgerRow> ledger() const override;
  double message_bytes() const override;

  /// "demo/momentum", and the ledger.
  void save(RankState& state) const override;
  /// throws DataError if that is of another model
  void load(const StateDict& state) override;

  /// m, laid out like the arena; between steps.
  const Tensor& momentum() const { return momentum_; }

 private:
  struct Part {  // of a bucket: a parameter, or the bucket's rows of one
    Parameter& parameter;
    std::size_t first;  // element of the bucket
    std::int64_t elements;
    Chunks chunks;
    EnergyAccount account;
  };
  struct Message {  // of a bucket
    std::vector<Part> parts;
    std::size_t bytes = 0;
    compress::Bytes packet;
    Gathered all;
  };
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  void extract(std::size_t bucket);
  void combine(std::size_t bucket, float* gradients);

  const WorkerSide side_;
  const DemoRules rules_;
  Tensor momentum_;
  std::vector<Message> messages_;  // by bucket
};

}  // namespace laconic::dist
