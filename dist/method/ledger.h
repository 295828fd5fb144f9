#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace laconic::dist {

/// The account of one parameter's exchange on this rank, since the start of training (since it was resumed, if the
/// checkpoint has no ledger). Shares are means over the steps that were measured, every so many (--ledger).
struct LedgerRow {
  std::string parameter;  ///< "fc1.weight"; "(others)": all that travels whole
  std::string choice;     ///< "trimmed, signs"; "all"
  std::int64_t elements = 0;
  std::int64_t exchanges = 0;  ///< steps in which something of it was sent
  std::int64_t measured = 0;   ///< of these
  double sent = 0;             ///< elements, mean over exchanges
  /// This rank's message times how often it travels; without what passes through this rank. Over all ranks the sum is
  /// what was sent. With a parameter server: what this rank sent it.
  double bytes = 0;
  double bytes_down = 0;     ///< with a parameter server: what it sent to this rank
  double energy_sent = 0;    ///< 1 - energy_held
  double energy_held = 0;    ///< |V|^2 after what was sent was taken away / before
  double union_density = 0;  ///< elements that some rank has sent / all
  /// Steps since the element that has waited longest was sent, or since the beginning, at the last measured step.
  std::int64_t oldest = 0;
  std::vector<double> more{};  ///< what a method has besides; its columns say what that is
};

/// A figure of a row, as logs and tables show it.
struct LedgerColumn {
  enum class Unit : std::uint8_t { count, number, bytes, share };
  const char* key;   ///< in logs
  const char* head;  ///< in tables; null: in logs alone
  Unit unit;
  double (*value)(const LedgerRow&);  ///< NaN: there is none
};
inline constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

/// The columns of a method's ledger. No columns: it keeps none.
struct LedgerForm {
  std::span<const LedgerColumn> columns{};
  const char* note = "";  ///< under a table: what its heads mean
};

}  // namespace laconic::dist
