#pragma once
#include <cstdint>
#include <string>

namespace laconic::dist {

/// What the exchange of one parameter has come to, on this rank, since the start of training (since it was resumed, if
/// the checkpoint has no ledger). Shares are means over the steps that were measured, every so many (--ledger).
struct LedgerRow {
  std::string parameter;  ///< "fc1.weight"; "(others)": all that travels whole
  std::string choice;     ///< "trimmed, signs"; "all"
  std::int64_t elements = 0;
  std::int64_t exchanges = 0;  ///< steps in which a choice was sent
  std::int64_t measured = 0;   ///< of these
  double sent = 0;             ///< elements chosen, mean over exchanges
  /// This rank's message times how often it travels; without what passes through this rank. Over all ranks the sum is
  /// what was sent.
  double bytes = 0;
  double energy_sent = 0;    ///< 1 - energy_held
  double energy_held = 0;    ///< |V|^2 after what was sent was taken away / before
  double union_density = 0;  ///< elements that some rank has sent / all
  /// Steps since the element that has waited longest was chosen, or since the beginning, at the last measured step.
  std::int64_t oldest = 0;
  /// Whether there is a parameter server: then bytes are what this rank sent it, or got from it, over the network. Of a
  /// choice (Slim-DP) also what values of the core, of the explorer, and keys were of both.
  bool served = false;
  double bytes_core = 0, bytes_explorer = 0, bytes_keys = 0;
  /// Where there is a parameter server: what it sent to this rank, and of layers that travel whole or not at all the
  /// steps in which this rank sent it, and in which it came.
  double bytes_down = 0;
  std::int64_t times_sent = 0, times_received = 0;
};

}  // namespace laconic::dist
