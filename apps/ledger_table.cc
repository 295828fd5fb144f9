#include "apps/ledger_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/text.h"

namespace laconic {

namespace {

/// Of layers that travel whole or not at all.
std::string layer_table(const std::vector<dist::LedgerRow>& rows, std::size_t width) {
  std::string text = fmt::format("{:<{}}  {:>11} {:>8} {:>8} {:>8} {:>10} {:>10} {:>7}\n", "layer", width, "elements",
                                 "steps", "sent", "came", "up", "down", "age");
  for (const auto& r : rows)
    text += fmt::format("{:<{}}  {:>11} {:>8} {:>8} {:>8} {:>10} {:>10} {:>7}\n", r.parameter, width, r.elements,
                        r.exchanges, r.times_sent, r.times_received, human_bytes(r.bytes), human_bytes(r.bytes_down),
                        r.oldest);
  return text + "sent, came: steps in which rank 0 sent the layer, and got it back; age: steps since it was sent\n";
}

/// Of all that goes to servers, or of a choice of it.
std::string server_table(const std::vector<dist::LedgerRow>& rows, std::size_t width) {
  const bool chosen = rows.front().choice != "all";
  std::string text =
      fmt::format("{:<{}}  {:>11} {:>9} {:>10} {:>10}", "parameter", width, "elements", "exchanges", "up", "down");
  if (chosen) text += fmt::format(" {:>10} {:>10} {:>10}", "core", "explorer", "keys");
  text += "\n";
  for (const auto& r : rows) {
    text += fmt::format("{:<{}}  {:>11} {:>9} {:>10} {:>10}", r.parameter, width, r.elements, r.exchanges,
                        human_bytes(r.bytes), human_bytes(r.bytes_down));
    if (chosen)
      text += fmt::format(" {:>10} {:>10} {:>10}", human_bytes(r.bytes_core), human_bytes(r.bytes_explorer),
                          human_bytes(r.bytes_keys));
    text += "\n";
  }
  return text + (chosen ? "up, down: bytes between rank 0 and servers; core, explorer, keys: of both together\n"
                        : "up, down: bytes between rank 0 and servers\n");
}

}  // namespace

std::string ledger_table(const std::vector<dist::LedgerRow>& rows) {
  std::size_t width = 9;
  for (const auto& r : rows) width = std::max(width, r.parameter.size());
  if (!rows.empty() && rows.front().choice == "layers") return layer_table(rows, width);
  if (!rows.empty() && rows.front().served) return server_table(rows, width);
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
