#include "apps/common/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/parse.h"

namespace laconic {
namespace {

std::string scaled(double value, const std::vector<const char*>& units, double factor) {
  if (!std::isfinite(value)) return fmt::format("{}{}", value, units[0]);
  std::size_t unit = 0;
  while (std::abs(value) >= factor * 0.9995 && unit + 1 < units.size()) value /= factor, ++unit;
  if (unit == 0) return fmt::format("{:.0f}{}", value, units[0]);
  const int decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, units[unit]);
}

}  // namespace

std::string human_bytes(double bytes) { return scaled(bytes, {" B", " kB", " MB", " GB", " TB", " PB"}, 1000); }
std::string human_count(double count) { return scaled(count, {"", " k", " M", " G"}, 1000); }

std::string human_seconds(double time) {
  if (!(time < 1e9)) return "?";
  if (time < 99.95) return fmt::format("{:.1f} s", time);
  const auto s = static_cast<std::int64_t>(std::lround(time));
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

std::string plural(std::int64_t n, const std::string& what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0;;) {
    const auto to = text.find(separator, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

std::string join(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::size_t letters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string first_letters(const std::string& text, std::size_t most) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if ((text[end] & 0xC0) != 0x80 && seen++ == most) break;
  return text.substr(0, end);
}

std::string broken(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at + 1), text.size());
    const std::string word = text.substr(at, end - at);  // behind a blank, or the end of a line
    if (line > 0 && word[0] == ' ' && line + letters(word) > width) {
      out.resize(out.find_last_not_of(' ') + 1);
      out += '\n', line = 0;
      at = std::min(text.find_first_not_of(' ', at), text.size());
      continue;
    }
    line = word[0] == '\n' ? letters(word) - 1 : line + letters(word);
    out += word, at = end;
  }
  return out;
}

std::string fitted(const std::string& text, std::size_t width, std::size_t indent) {
  std::string all;
  for (const std::string& line : split(text, '\n')) {
    std::size_t column = 0;
    if (const auto gap = line.find("  ", line.find_first_not_of(' ')); gap != std::string::npos)
      column = line.find_first_not_of(' ', gap);
    const bool beside = column > 0 && column + 16 <= width;
    const std::size_t from = beside ? column : 0, room = width - (beside ? column : indent);
    std::string rest = letters(line) > width ? broken(line.substr(from), room) : line.substr(from);
    for (std::size_t at = 0; (at = rest.find('\n', at)) != std::string::npos;)
      rest.insert(++at, beside ? column : indent, ' ');
    all += line.substr(0, from) + rest + "\n";
  }
  all.pop_back();
  return all;
}

std::pair<std::int64_t, std::int64_t> step_range(const std::string& text, const std::string& where) {
  const auto colon = text.find(':');
  const auto first = number_from<std::int64_t>(text.substr(0, colon));
  const auto last = colon == std::string::npos ? first : number_from<std::int64_t>(text.substr(colon + 1));
  require<UsageError>(first && last && *first >= 1 && *last >= *first, "'", text, "' are no steps (", where,
                      "): give the first and the last, from 1, as 3:4");
  return {*first, *last};
}

std::string with_seed(const std::string& name, std::uint64_t seed) {
  if (name.starts_with("/dev/")) return name;
  const std::string path = name.substr(0, name.find_last_not_of('/') + 1);
  const auto slash = path.rfind('/'), dot = path.rfind('.');
  const bool extension = dot != std::string::npos && dot > 0 && (slash == std::string::npos || dot > slash + 1);
  const std::size_t at = extension ? dot : path.size();
  return fmt::format("{}-seed{}{}", path.substr(0, at), seed, path.substr(at));
}

std::pair<std::string, std::string> title_and_file(const std::string& argument) {
  const auto there = [](const std::string& path) {
    std::error_code no_matter;
    return std::filesystem::exists(path, no_matter);
  };
  const auto first = argument.find('=');
  if (first == std::string::npos || there(argument)) return {"", argument};
  for (auto at = first; at != std::string::npos; at = argument.find('=', at + 1))
    if (there(argument.substr(at + 1))) return {argument.substr(0, at), argument.substr(at + 1)};
  return {argument.substr(0, first), argument.substr(first + 1)};
}

std::pair<std::string, std::string> labelled(const std::string& text) {
  const auto colon = text.find(':');
  const bool has = colon != std::string::npos && colon > 0 && text[0] != '-' &&
                   (colon + 1 == text.size() || text[colon + 1] == ' ' || text[colon + 1] == '-');
  return {has ? text.substr(0, colon) : text, has ? text.substr(colon + 1) : text};
}

std::string wrapped(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  std::size_t line = 0;
  for (const auto& word : words) {
    const bool full = line + word.size() > 48;
    if (!text.empty()) text += full ? separator.substr(0, separator.size() - 1) + "\n" : separator;
    text += word;
    line = (full ? 0 : line) + word.size() + separator.size();
  }
  return text;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::vector<std::string> shell_words(const std::string& text, const std::string& where) {
  std::vector<std::string> words;
  bool open = false;  // a word has begun
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
      if (!open) words.emplace_back();
      open = true;
    } else if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      open = false;
    } else {
      if (!open) words.emplace_back();
      open = true;
      words.back() += c == '\\' && quote != '\'' && i + 1 < text.size() ? text[++i] : c;
    }
  }
  require<UsageError>(!quote, "a quote is not closed in \"", text, "\" (", where, "): close it");
  return words;
}

}  // namespace laconic
