#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/common/statistics.h"
#include "apps/common/terminal.h"

namespace laconic {

/// "1.12 (1.10 … 1.15)"; "1.12" where there was one value, which has no interval. `form` is how each number is printed;
/// without one with two decimals, below 1 with three.
std::string with_interval(const Median& m, const char* form = nullptr, double unit = 1);
/// {"median": 1.12, "low": 1.10, "high": 1.15}
nlohmann::ordered_json to_json(const Median& m);

/// A figure: a cell of a table, and a member of an object of --json. What has neither value nor text stands in neither.
struct Cell {
  using Json = nlohmann::ordered_json;

  std::string head;             ///< of its column; empty: it is in no table
  std::string key;              ///< its name in the object; empty: it is not there
  Json value;                   ///< null: there is none
  std::string text;             ///< in the table
  std::optional<Median> range;  ///< stands in the object beside the value, as key_low and key_high

  Cell(std::string head, std::string key, Json value, std::string text)
      : head(std::move(head)), key(std::move(key)), value(std::move(value)), text(std::move(text)) {}
  Cell(std::string head, std::string key, const std::string& text)
      : Cell(std::move(head), std::move(key), Json(text), text) {}
  /// unit : what the number is multiplied by for the table
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
      Cell(std::string head, std::string key, T number, const char* form = "{}", double unit = 1)
      : Cell(std::move(head), std::move(key), Json(number),
             unit == 1 ? fmt::format(fmt::runtime(form), number)
                       : fmt::format(fmt::runtime(form), unit * static_cast<double>(number))) {}
  template <class T>
  requires std::is_same_v<T, std::optional<double>> Cell(std::string head, std::string key, T number,
                                                         const char* form = "{}")
      : Cell(std::move(head), std::move(key), number ? Json(*number) : Json(),
             number ? fmt::format(fmt::runtime(form), *number) : "") {}
  Cell(std::string head, std::string key, const Median& m)
      : Cell(std::move(head), std::move(key), Json(m.value), with_interval(m)) {
    range = m;
  }
};
using Cells = std::vector<Cell>;

/// Those that have a key, as one object.
Cell::Json to_json(const Cells& row);

/// Rows of figures: as text in columns that are as wide as their cells, or for Markdown, and as objects. The columns
/// are all those that the rows of the first text() have, in their order. Words stand at the left of their column,
/// numbers at the right. In a narrow terminal a row, and the heads, take several lines: further columns stand under the
/// second one.
class ResultTable {
 public:
  /// title : stands above the table after an empty line; "": not even that line does; none: that line alone
  /// absent : the cell of a row that has no figure of that column
  /// columns : of the terminal that the text is for; 0: of none, where a row has a line
  explicit ResultTable(bool markdown, const std::optional<std::string>& title = {}, std::string absent = "",
                       int columns = terminal_columns());
  void add(Cells row);
  /// Returns what was added since it was called last; the first time with an empty line, title and heads before it.
  std::string text();
  /// An array with an object for each row that has keys.
  Cell::Json& objects() { return objects_; }

 private:
  void fold();  // sets where lines of a row start, by the widths

  bool markdown_;
  int columns_;
  std::string absent_, title_;
  std::vector<Cells> rows_;
  Cell::Json objects_ = Cell::Json::array();
  std::vector<std::string> heads_;
  std::vector<std::size_t> widths_;       ///< in letters
  std::vector<bool> words_;               ///< no figure of the column is a number
  std::vector<std::size_t> line_starts_;  ///< columns that begin a further line of their row
  std::size_t indent_ = 0;                ///< of such a line
};

}  // namespace laconic
