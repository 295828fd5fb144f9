#include "data/table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/parse.h"
#include "data/input_file.h"

namespace laconic {
namespace {

/// Takes CSV apart, value by value.
class CsvLines {
 public:
  CsvLines(const std::string& path, char separator) : path_(path), text_(read_text(path)), separator_(separator) {}
  /// The values of the next line that is not empty; none at the end.
  std::vector<std::string> next() {
    std::vector<std::string> values;
    while (at_ < text_.size()) {
      ++line_;
      bool is_empty = true;
      values = values_of_line(is_empty);
      if (!is_empty) return values;
    }
    return {};
  }
  std::int64_t line() const { return line_; }

 private:
  /// is_empty : becomes false where the line has anything, if only quotes
  std::vector<std::string> values_of_line(bool& is_empty) {
    std::vector<std::string> values(1);
    const std::int64_t first = line_;
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      is_empty &= c == '\n' || c == '\r';
      if (quoted) {
        line_ += c == '\n';
        if (c != '"')
          values.back() += c;
        else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"')
          values.back() += '"', ++at_;
        else
          quoted = false;
      } else if (c == '"' && values.back().empty()) {
        quoted = true;
      } else if (c == separator_) {
        values.emplace_back();
      } else if (c == '\n') {
        ++at_;
        break;
      } else if (c != '\r') {
        values.back() += c;
      }
    }
    require<DataError>(!quoted, path_, ", line ", first, ": a quote is not closed.");
    return values;
  }

  std::string path_, text_;
  char separator_;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<double> number_in(const std::string& text) {
  const std::string plain = trimmed(text);
  return number_from<double>(plain.starts_with('+') ? plain.substr(1) : plain);
}

}  // namespace

Table::Table(std::string name, std::vector<std::string> columns, std::vector<std::vector<std::string>> values)
    : name_(std::move(name)), columns_(std::move(columns)), values_(std::move(values)) {
  require<DataError>(columns_.size() == values_.size(), name_, ": ", columns_.size(), " names for ", values_.size(),
                     " columns.");
  for (const auto& column : values_)
    require<DataError>(column.size() == values_[0].size(), name_, ": columns have ", values_[0].size(), " and ",
                       column.size(), " rows.");
}

std::size_t Table::place(const std::string& column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) {
    const std::string near = nearest(column, columns_);
    throw DataError(concat(name_, ": there is no column '", column, "'", near.empty() ? "." : ": did you mean ", near,
                           near.empty() ? "" : "?"));
  }
  return static_cast<std::size_t>(found - columns_.begin());
}

Tensor Table::numbers(const std::vector<std::string>& columns, const std::vector<std::string>& but) const {
  std::vector<std::size_t> places, left_out;
  for (const std::string& column : but) left_out.push_back(place(column));
  for (const std::string& column : columns) places.push_back(place(column));
  for (std::size_t i = 0; i < columns_.size() && columns.empty(); ++i)
    if (std::find(left_out.begin(), left_out.end(), i) == left_out.end()) places.push_back(i);
  const Tensor result = Tensor::empty({rows(), static_cast<std::int64_t>(places.size())});
  for (std::size_t c = 0; c < places.size(); ++c)
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows()); ++r) {
      const std::string& text = values_[places[c]][r];
      const auto number = number_in(text);
      require<DataError>(number.has_value(), name_, ", row ", r + 1, ": '", text, "' in column '", columns_[places[c]],
                         "' is no number. Read that column by classes(), or leave it out.");
      result.data<float>()[r * places.size() + c] = static_cast<float>(*number);
    }
  return result;
}

std::vector<std::string> Table::class_names(const std::string& column) const {
  const std::vector<std::string>& values = values_[place(column)];
  const std::set<std::string> different(values.begin(), values.end());
  std::vector<std::string> names(different.begin(), different.end());
  if (std::all_of(names.begin(), names.end(), [](const std::string& name) { return number_in(name).has_value(); }))
    std::stable_sort(names.begin(), names.end(),
                     [](const std::string& a, const std::string& b) { return *number_in(a) < *number_in(b); });
  return names;
}

Tensor Table::classes(const std::string& column) const {
  const std::vector<std::string>& values = values_[place(column)];
  const std::vector<std::string> names = class_names(column);
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : names) numbers.emplace(name, static_cast<std::int64_t>(numbers.size()));
  std::vector<std::int64_t> classes;
  for (const std::string& value : values) classes.push_back(numbers.at(value));
  return Tensor::of({rows()}, classes);
}

Table read_csv(const std::string& path, char separator) {
  CsvLines lines(path, separator);
  std::vector<std::string> names = lines.next();
  require<DataError>(!names.empty(), path, " is empty.");
  std::vector<std::vector<std::string>> columns(names.size());
  const auto add = [&](const std::vector<std::string>& row) {
    require<DataError>(row.size() == names.size(), path, ", line ", lines.line(), ": ", row.size(),
                       " values, but the first line has ", names.size(), ".");
    for (std::size_t c = 0; c < row.size(); ++c) columns[c].push_back(row[c]);
  };
  if (std::any_of(names.begin(), names.end(), [](const std::string& name) { return number_in(name).has_value(); })) {
    add(names);
    for (std::size_t c = 0; c < names.size(); ++c) names[c] = std::to_string(c);
  } else {
    for (std::string& name : names) name = trimmed(name);
  }
  for (std::vector<std::string> row = lines.next(); !row.empty(); row = lines.next()) add(row);
  return Table(path, std::move(names), std::move(columns));
}

}  // namespace laconic
