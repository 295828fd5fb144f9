#include "apps/ledger_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/text.h"

namespace laconic {

std::string ledger_table(const std::vector<dist::LedgerRow>& rows) {
  std::size_t width = 9;
  for (const auto& r : rows) width = std::max(width, r.parameter.size());
  std::string text = fmt::format("{:<{}}  {:<15} {:>11} {:>10} {:>10} {:>9} {:>9} {:>8} {:>7}\n", "parameter", width,
                                 "choice", "elements", "sent", "bytes", "energy %", "held %", "union %", "oldest");
  for (const auto& r : rows) {
    text += fmt::format("{:<{}}  {:<15} {:>11} ", r.parameter, width, r.choice, r.elements);
    if (r.exchanges == 0) {
      text += fmt::format("{:>10} {:>10}\n", "all", human_bytes(r.bytes));
    } else if (r.measured == 0) {
      text += fmt::format("{:>10.1f} {:>10}\n", r.sent, human_bytes(r.bytes));
    } else {
      text += fmt::format("{:>10.1f} {:>10} {:>9.2f} {:>9.2f} {:>8.3f} {:>7}\n", r.sent, human_bytes(r.bytes),
                          100 * r.energy_sent, 100 * r.energy_held, 100 * r.union_density, r.oldest);
    }
  }
  return text +
         "sent: elements a step; bytes: of rank 0's messages, as often as they travel; energy: share of the residual's "
         "squares that a step\nsends, held: keeps; union: elements that some rank sends; oldest: steps since an "
         "element "
         "was last sent\n";
}

}  // namespace laconic
