#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dist/sync/redsync.h"
#include "dist/sync/warmup.h"

namespace laconic::dist {

/// A strategy that sends chosen elements of residuals, as --sync names it: RedSync, and its neighbours, which are the
/// same parts put together in another way.
///
///   redsync             momentum correction, masking; --selector decides
///   dgc                 the same with a threshold estimated from a sample and a ramp of densities (Lin et al. 2018)
///   topk                the exact top k of V; the optimiser's momentum on what is received (no correction)
///   gradient-dropping   about k above an estimated threshold, likewise (Aji & Heafield 2017)
///   adacomp             what is large in its bin, likewise; values as they are, its paper quantises them
///                       (Chen et al. 2018)
///   strom               plus or minus a threshold for all that reaches it, likewise (Strom 2015)
///   randomk             k drawn by keys that all ranks share, summed by a ring without indices, likewise
struct SparseMethod {
  const char* name;
  bool corrects;                           ///< momentum correction
  bool has_density;                        ///< sends a given share
  std::optional<compress::Method> method;  ///< nothing: --selector decides
  const char* warmup;                      ///< unless --warmup says otherwise
};
const std::vector<SparseMethod>& sparse_methods();
/// Null if `sync` is none of them.
const SparseMethod* sparse_method(const std::string& sync);

/// What --selector can be.
const std::vector<std::string>& selector_names();

/// What the command line says about them.
struct SparseOptions {
  double density = 1e-3;                 ///< --density: (0, 1]
  std::string selector = "paper";        ///< --selector: one of selector_names()
  bool quantised = false;                ///< --qrgc
  bool feedback = true;                  ///< --qrgc-feedback
  bool masking = true;                   ///< no --no-mask
  std::optional<Warmup> warmup{};        ///< --warmup; nothing: the method's own
  std::int64_t dense_below = 128 << 10;  ///< bytes: smaller parameters travel whole
  bool delta = false;                    ///< --index-coding delta
  bool split = false;                    ///< --sparse-reduce split
  double threshold = 0;                  ///< --threshold, of strom
  /// Of the network, where it is known: for --selector auto, and for how small indices are to be written.
  std::optional<double> latency_seconds{}, seconds_per_byte{};
};

/// optimizer : sgd, adam, adamw.   clips_values : --clip value
/// throws UsageError where these make no sense together: a density out of range, the sampled search with one sign,
/// momentum correction of an optimiser that has no such momentum, ...
void require_sensible(const SparseMethod& method, const SparseOptions& options, const std::string& optimizer = "sgd",
                      bool clips_values = false);

/// Whether a plan for this method may have that choice: a plan may come from a file.
bool fits(const SparseMethod& method, const Choice& choice);

/// What the plan is to send of which parameters.
Dispatch dispatch_of(const SparseMethod& method, const SparseOptions& options);

/// The parts of a strategy that follow from these options; momentum, decay, overlap and clipping are the caller's.
RedSync::Options redsync_options(const SparseMethod& method, const SparseOptions& options,
                                 std::int64_t steps_per_epoch);

/// On one line, all that decides about results: for fingerprints.
std::string to_string(const SparseMethod& method, const SparseOptions& options);

/// About how many bytes a rank sends in a step by this plan, once the density is the one that is kept; nothing for a
/// method without one, where the gradients decide.
std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                     const SparseOptions& options, int workers);

}  // namespace laconic::dist
