#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/statistics.h"

namespace laconic {

/// A table that grows line by line, on standard output: text or markdown.
class ResultTable {
 public:
  ResultTable(std::vector<std::string> columns, bool markdown) : columns_(std::move(columns)), markdown_(markdown) {}
  void title(const std::string& text) const;  ///< and the heads of the columns
  void row(const std::vector<std::string>& cells) const;

 private:
  std::vector<std::string> columns_;
  bool markdown_;
};

/// "1.12 (1.10 … 1.15)"
std::string with_interval(const Median& m);

}  // namespace laconic
