#include "apps/ledger_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "apps/text.h"

namespace laconic {
namespace {

std::string cell(dist::LedgerColumn::Unit unit, double value) {
  using Unit = dist::LedgerColumn::Unit;
  if (std::isnan(value)) return "";
  switch (unit) {
    case Unit::count:
      return fmt::format("{:.0f}", value);
    case Unit::number:
      return fmt::format("{:.1f}", value);
    case Unit::bytes:
      return human_bytes(value);
    case Unit::share:
      return fmt::format("{:.3f}", 100 * value);
  }
  return "";
}

}  // namespace

std::string ledger_table(const dist::LedgerForm& form, const std::vector<dist::LedgerRow>& rows) {
  std::vector<std::vector<std::string>> lines{{"parameter", "choice", "elements"}};
  for (const auto& column : form.columns)
    if (column.head != nullptr) lines[0].emplace_back(column.head);
  for (const auto& r : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    line = {r.parameter, r.choice, fmt::format("{}", r.elements)};
    for (const auto& column : form.columns)
      if (column.head != nullptr) line.push_back(cell(column.unit, column.value(r)));
  }
  std::string text;
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[c].size());
      text += c < 2 ? fmt::format("{:<{}}  ", line[c], width) : fmt::format("{:>{}}", line[c], width);
      text += c + 1 == line.size() ? "\n" : c < 2 ? "" : "  ";
    }
  return text + form.note + "\n";
}

}  // namespace laconic
