#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/program.h"

namespace laconic {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The last line of what a program printed with --json.
inline nlohmann::json last_line(const std::string& out) {
  return nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
}

/// The lines of a file that --log wrote.
inline std::vector<nlohmann::json> log_of(const std::string& path) {
  std::vector<nlohmann::json> log;
  for (const auto& line : lines_of(file_text(path))) log.push_back(nlohmann::json::parse(line));
  return log;
}

/// The losses of its steps, by step, as written.
inline std::map<std::int64_t, std::string> losses_in(const std::string& path) {
  std::map<std::int64_t, std::string> losses;
  for (const auto& line : log_of(path))
    if (line.contains("step")) losses[line["step"]] = line["loss"].dump();
  return losses;
}

}  // namespace laconic
