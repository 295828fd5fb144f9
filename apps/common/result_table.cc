#include "apps/common/result_table.h"

#include <algorithm>

#include "apps/common/text.h"

namespace laconic {
namespace {

bool absent(const Cell& f) { return f.value.is_null() && f.text.empty(); }

/// Calls visit(place of its column, figure) for the figures of a row. A column that `heads` lacks stands behind the one
/// before; it is added if `extend`, else left out.
template <class Visit>
void for_columns(const Cells& row, std::vector<std::string>& heads, bool extend, const Visit& visit) {
  auto at = heads.begin();
  for (const Cell& f : row) {
    if (f.head.empty() || absent(f)) continue;
    auto found = std::find(at, heads.end(), f.head);
    if (found == heads.end() && !extend) continue;
    if (found == heads.end()) found = heads.insert(at, f.head);
    visit(static_cast<std::size_t>(found - heads.begin()), f);
    at = found + 1;
  }
}

}  // namespace

std::string with_interval(const Median& m, const char* form, double unit) {
  const auto one = [&](double v) {
    return fmt::format(fmt::runtime(form ? form : m.value < 0.995 ? "{:.3f}" : "{:.2f}"), v * unit);
  };
  return m.count == 1 ? one(m.value) : fmt::format("{} ({} … {})", one(m.value), one(m.low), one(m.high));
}

nlohmann::ordered_json to_json(const Median& m) { return {{"median", m.value}, {"low", m.low}, {"high", m.high}}; }

Cell::Json to_json(const Cells& row) {
  auto object = Cell::Json::object();
  for (const Cell& f : row) {
    if (f.key.empty() || absent(f)) continue;
    object[f.key] = f.value;
    if (f.range) object[f.key + "_low"] = f.range->low, object[f.key + "_high"] = f.range->high;
  }
  return object;
}

ResultTable::ResultTable(bool markdown, const std::optional<std::string>& title, std::string absent, int columns)
    : markdown_(markdown), columns_(columns), absent_(std::move(absent)), title_("\n") {
  if (title) title_ = title->empty() ? "" : markdown ? "\n**" + *title + "**\n\n" : "\n" + *title + "\n";
}

void ResultTable::add(Cells row) {
  if (auto object = to_json(row); !object.empty()) objects_.push_back(std::move(object));
  rows_.push_back(std::move(row));
}

std::string ResultTable::text() {
  const bool first = widths_.empty();
  std::vector<std::vector<std::string>> lines;
  if (first) {
    for (const Cells& row : rows_) for_columns(row, heads_, true, [](std::size_t, const Cell&) {});
    lines.push_back(heads_);
  }
  widths_.resize(heads_.size()), words_.resize(heads_.size(), true);
  for (const Cells& row : rows_) {
    auto& line = lines.emplace_back(heads_.size(), absent_);
    for_columns(row, heads_, false, [&](std::size_t c, const Cell& f) {
      line[c] = f.text;
      if (first && c > 0 && !f.value.is_string() && !f.value.is_array()) words_[c] = false;
    });
  }
  rows_.clear();
  std::string text = first ? title_ : "";
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size() && first; ++c) widths_[c] = std::max(widths_[c], letters(line[c]));
  if (first) fold();
  const auto end_line = [&] {  // one of a folded row that holds nothing is left out
    if (!markdown_) text.resize(text.find_last_not_of(' ') + 1);
    if (line_starts_.empty() || text.back() != '\n') text += "\n";
  };
  for (auto& line : lines) {
    text += markdown_ ? "|" : "";
    for (std::size_t c = 0; c < line.size(); ++c) {
      std::string& cell = line[c];
      const std::string room(widths_[c] - std::min(widths_[c], letters(cell)), ' ');
      for (std::size_t at = 0; markdown_ && (at = cell.find('|', at)) != std::string::npos; at += 2)
        cell.insert(at, "\\");
      const bool starts = std::ranges::find(line_starts_, c) != line_starts_.end();
      if (starts) end_line();
      const std::string before = starts ? std::string(indent_, ' ') : c == 0 ? "" : "  ";
      text += markdown_ ? " " + cell + " |" : before + (words_[c] ? cell + room : room + cell);
    }
    end_line();
    if (!markdown_ || !first || &line != &lines[0]) continue;
    text += "|";
    for (const bool words : words_) text += words ? "---|" : "---:|";
    text += "\n";
  }
  return text;
}

void ResultTable::fold() {
  const auto columns = static_cast<std::size_t>(std::max(columns_, 0));
  if (markdown_ || columns == 0 || widths_.empty()) return;
  indent_ = 2 * widths_[0] <= columns ? widths_[0] + 2 : 4;
  std::size_t line = widths_[0];
  for (std::size_t c = 1; c < widths_.size(); ++c)
    if ((line += 2 + widths_[c]) > columns) line_starts_.push_back(c), line = indent_ + widths_[c];
}

}  // namespace laconic
