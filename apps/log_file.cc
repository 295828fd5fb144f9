#include "apps/log_file.h"

#include <fstream>

#include "core/error.h"
#include "core/json.h"

namespace laconic {

LogFile LogFile::read(const std::string& path) {
  std::ifstream in(path);
  require<DataError>(in.good(), path, " could not be read: check the path, and name a file that --log has written.");
  LogFile log;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    nlohmann::json j = nlohmann::json::parse(line, shallow(concat(path, ":", number)), false);
    if (j.is_discarded() && in.eof()) break;  // cut off while it was written
    require<DataError>(j.is_object(), path, ":", number, " is no line of a log: name a file that --log has written.");
    if (j.contains("run")) log.run = std::move(j["run"]);
    if (j.contains("plan")) log.plan = std::move(j["plan"]);
    if (j.contains("ledger")) log.ledger = std::move(j["ledger"]);
    if (j.contains("step")) log.steps.push_back(std::move(j));
  }
  require<DataError>(log.run.is_object(), path, " says of no run: name a file that --log has written.");
  return log;
}

}  // namespace laconic
