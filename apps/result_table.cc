#include "apps/result_table.h"

#include <fmt/format.h>

#include <cstdio>

namespace laconic {

void ResultTable::title(const std::string& text) const {
  fmt::print("\n{}{}\n", markdown_ ? "**" : "", markdown_ ? text + "**\n" : text);
  row(columns_);
  if (!markdown_) return;
  std::string line = "|";
  for (std::size_t i = 0; i < columns_.size(); ++i) line += "---|";
  fmt::print("{}\n", line);
}

void ResultTable::row(const std::vector<std::string>& cells) const {
  std::string line = markdown_ ? "|" : "";
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += markdown_ ? " " + cells[i] + " |"
            : i == 0  ? fmt::format("{:<58}", cells[i])
                      : fmt::format(" {:>22}", cells[i]);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::string with_interval(const Median& m) {
  return m.value < 0.995 ? fmt::format("{:.3f} ({:.3f} … {:.3f})", m.value, m.low, m.high)
                         : fmt::format("{:.2f} ({:.2f} … {:.2f})", m.value, m.low, m.high);
}

}  // namespace laconic
