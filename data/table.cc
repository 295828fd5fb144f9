#include "data/table.h"

#include <algorithm>
#include <bit>
#include <cstring>
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

namespace {

/// The text behind 'KEY': in the header of a .npy file, up to `end`.
std::string npy_field(const std::string& path, const std::string& header, const std::string& key, const char* end) {
  const auto at = header.find("'" + key + "':");
  require<DataError>(at != std::string::npos, path, ": its header has no '", key, "'.");
  const auto begin = at + key.size() + 3;
  return trimmed(header.substr(begin, header.find_first_of(end, begin) - begin));
}

template <class From, class To>
void convert(const std::byte* from, void* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof value, sizeof value);
    static_cast<To*>(to)[i] = static_cast<To>(value);
  }
}

struct NpyType {
  const char* name;
  std::size_t bytes;
  DType as;
  void (*read)(const std::byte* from, void* to, std::int64_t n);
};
template <class From, class To>
constexpr NpyType read_as(const char* name, DType as) {
  return {name, sizeof(From), as, convert<From, To>};
}
constexpr NpyType kNpyTypes[] = {read_as<float, float>("'<f4'", DType::f32),
                                 read_as<double, float>("'<f8'", DType::f32),
                                 read_as<std::int64_t, std::int64_t>("'<i8'", DType::i64),
                                 read_as<std::int32_t, std::int64_t>("'<i4'", DType::i64),
                                 read_as<std::int8_t, std::int64_t>("'|i1'", DType::i64),
                                 read_as<std::uint8_t, std::int64_t>("'|u1'", DType::i64),
                                 read_as<std::uint8_t, std::int64_t>("'|b1'", DType::i64)};

}  // namespace

Tensor read_npy(const std::string& path) {
  static_assert(std::endian::native == std::endian::little);
  const std::vector<std::byte> file = read_file(path);
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(file[i]); };
  require<DataError>(file.size() >= 12 && std::memcmp(file.data(), "\x93NUMPY", 6) == 0 && byte(6) >= 1 && byte(6) <= 3,
                     path, " is no .npy file.");
  const bool long_header = byte(6) > 1;
  const std::size_t begin = long_header ? 12 : 10;
  const std::size_t length = byte(8) | byte(9) << 8 | (long_header ? byte(10) << 16 | byte(11) << 24 : 0);
  require<DataError>(length <= file.size() - begin, path, " is cut in its header.");
  const std::string header(reinterpret_cast<const char*>(file.data()) + begin, length);
  const std::string type = npy_field(path, header, "descr", ",}");
  require<DataError>(npy_field(path, header, "fortran_order", ",}") == "False", path,
                     " is in the order of Fortran. Save numpy.ascontiguousarray of it.");
  std::string list = npy_field(path, header, "shape", ")");
  require<DataError>(list.starts_with('('), path, ": its header has no shape.");
  list.erase(0, 1);
  std::vector<std::int64_t> dims;
  std::int64_t elements = 1;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const auto extent = number_from<std::int64_t>(trimmed(list.substr(at, end - at)));
    require<DataError>(extent && *extent >= 0 && (*extent == 0 || elements <= (std::int64_t{1} << 48) / *extent), path,
                       ": its shape (", list, ") is none.");
    dims.push_back(*extent), elements *= *extent;
    at = end + 1;
    if (trimmed(list.substr(std::min(at, list.size()))).empty()) break;
  }
  require<DataError>(dims.size() <= static_cast<std::size_t>(Shape::kMaxRank), path, " has more than ", Shape::kMaxRank,
                     " dimensions.");

  const auto* found = std::ranges::find(kNpyTypes, std::string_view(type), &NpyType::name);
  require<DataError>(found != std::end(kNpyTypes), path, " has the type ", type,
                     ", not one of <f4, <f8, <i8, <i4, |i1, |u1 and |b1.");
  require<DataError>(file.size() - begin - length == static_cast<std::size_t>(elements) * found->bytes, path, " has ",
                     file.size() - begin - length, " bytes of values, but ", elements, " of ", found->bytes,
                     " bytes each are promised.");
  const Tensor result = Tensor::empty(Shape(std::span<const std::int64_t>(dims)), found->as);
  found->read(file.data() + begin + length, result.raw_data(), elements);
  return result;
}

}  // namespace laconic
