#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace laconic {

/// Holds what --log has written, as far as tools ask for it. docs/architecture.md, "Log", explains the fields.
struct LogFile {
  nlohmann::json run{}, plan{}, ledger{};  ///< the last of each; null if there is none
  std::vector<nlohmann::json> steps{};  ///< of all runs that the log is of

  /// throws DataError if the file cannot be read, or is no log
  static LogFile read(const std::string& path);
};

}  // namespace laconic
