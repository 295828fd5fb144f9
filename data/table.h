#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"

namespace laconic {

/// A table of texts, column by column: what a CSV file holds.
class Table {
 public:
  /// throws DataError: a column has not as many rows as the others
  Table(std::string name, std::vector<std::string> columns, std::vector<std::vector<std::string>> values);

  std::int64_t rows() const { return values_.empty() ? 0 : static_cast<std::int64_t>(values_[0].size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  /// These columns as numbers, float32 [rows, columns]; without a name all of them but those named in `but`.
  /// throws DataError naming the row and the column of what is no number, or a column that there is not
  Tensor numbers(const std::vector<std::string>& columns = {}, const std::vector<std::string>& but = {}) const;
  /// A column as numbers of classes, int64 [rows]: places in class_names().
  Tensor classes(const std::string& column) const;
  /// The different values of a column, sorted: as numbers, if all are.
  std::vector<std::string> class_names(const std::string& column) const;

 private:
  std::size_t place(const std::string& column) const;
  std::string name_;  // the name in messages
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> values_;  // values by column
};

/// Reads a CSV file, plain or gzip. Its first line names the columns, unless it has a number; then they are "0", "1", …
/// Values may stand in double quotes, in which two stand for one. Lines that are empty are passed over.
///   throws DataError naming the file and the line: it has another number of values, or a quote is not closed
Table read_csv(const std::string& path, char separator = ',');

}  // namespace laconic
