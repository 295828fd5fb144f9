#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/sparse_message.h"
#include "dist/method/ledger_account.h"
#include "dist/method/method.h"
#include "dist/method/warmup.h"

namespace laconic::dist {

/// A method that sends chosen elements of residuals: RedSync, or one that puts the same parts together in another way.
struct SparseMethod {
  const char* name;
  const char* summary;   ///< what is special about it, and its source
  const char* selector;  ///< by which it chooses; "": the setting of that name says
  bool corrects;         ///< momentum correction; else the optimiser's momentum on what is received
  bool has_density;      ///< sends a given share
  const char* warmup;    ///< unless `warmup` says otherwise
};
const std::vector<SparseMethod>& sparse_methods();
/// Null if `sync` is none of them.
const SparseMethod* sparse_method(const std::string& sync);

/// The values that `selector` takes: paper, auto, and the selectors that may be named.
std::vector<std::string> selector_names();

/// The settings of these methods.
struct SparseOptions {
  double density = 1e-3;                 ///< (0, 1]
  std::string selector = "paper";        ///< one of selector_names()
  bool quantised = false;                ///< `qrgc`
  bool feedback = true;                  ///< `qrgc-feedback`
  bool masking = true;                   ///< no `no-mask`
  std::optional<Warmup> warmup{};        ///< nothing: the method's own
  std::int64_t dense_below = 128 << 10;  ///< bytes: smaller parameters travel whole
  bool delta = false;                    ///< `index-coding` delta
  double threshold = 0;                  ///< of strom

  /// By the network's rate, where it is known.
  compress::IndexCoding coding(const TrainingFacts& facts) const;
};

/// Whether a plan for this method may have that choice: a plan may come from a file.
bool fits(const SparseMethod& method, const Choice& choice);

/// Says which parameters the plan sends a choice of. `selector` auto goes by the network, as far as that is known.
/// throws UsageError
Dispatch dispatch_of(const SparseMethod& method, const SparseOptions& options, const TrainingFacts& facts = {});

/// Returns the share of elements to send in a step (first 1); nothing: that step is dense.
using Density = std::function<std::optional<double>(std::int64_t step)>;
Density density_of(const SparseMethod& method, const SparseOptions& options, std::int64_t steps_per_epoch,
                   std::int64_t steps_ahead = 0);

/// One of sparse_methods() as a method.
class RedSyncMethod final : public Method {
 public:
  explicit RedSyncMethod(const SparseMethod& variant) : variant_(variant) {}
  std::string name() const override { return variant_.name; }
  std::string summary() const override { return variant_.summary; }
  Traits traits() const override;
  void settings(Settings& settings) override;
  void check(const TrainingFacts& facts) const override;
  void shape(PlanOptions& plan, const TrainingFacts& facts) const override;
  std::unique_ptr<Strategy> worker(WorkerSide side) const override;
  /// Counts with the density that is kept after a warm-up. Returns nothing for a method without a density.
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override;
  LedgerForm ledger() const override { return LedgerAccount::of_choices(); }
  std::string describe(const TrainingFacts& facts) const override;

  SparseOptions options{};

 private:
  const SparseMethod& variant_;
  bool feedback_given_ = false, no_feedback_given_ = false, dense_below_given_ = false;
};

}  // namespace laconic::dist
