#include "dist/fingerprint.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "dist/collective/allgather.h"

namespace laconic::dist {
namespace {

/// "batch=32" and "batch=16", or "" for a text that has ended: the first lines that differ.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  std::string x, y;
  while (true) {
    const bool more_left = static_cast<bool>(std::getline(left, x)),
               more_right = static_cast<bool>(std::getline(right, y));
    if (!more_left) x.clear();
    if (!more_right) y.clear();
    if (x != y || !(more_left || more_right)) return {x, y};
  }
}

constexpr const char* kName = "comparing options";

void require_equal(const std::vector<std::string>& all) {
  std::vector<int> others;
  for (int r = 1; r < static_cast<int>(all.size()); ++r)
    if (all[static_cast<std::size_t>(r)] != all[0]) others.push_back(r);
  if (others.empty()) return;
  const auto [theirs, zeros] = first_difference(all[static_cast<std::size_t>(others[0])], all[0]);
  std::string ranks = concat(others[0]);
  for (std::size_t i = 1; i < others.size(); ++i) ranks += concat(", ", others[i]);
  const auto shown = [](const std::string& line) { return line.empty() ? std::string("nothing") : "'" + line + "'"; };
  throw CommError(concat("fingerprint: rank ", others[0], " has ", shown(theirs), " where rank 0 has ", shown(zeros),
                         others.size() > 1 ? concat(" (ranks ", ranks, " differ from rank 0)") : "",
                         ". Start all ranks with the same program, options and data."));
}

}  // namespace

void check_fingerprint(Engine& engine, const std::string& mine, bool patiently) {
  std::vector<std::string> all;
  engine.run(
      kName, [&](Communicator& comm) { return allgather_blobs(comm, mine, all); }, kCpu, patiently);
  require_equal(all);
}

void check_fingerprint(const Worker& worker, const std::string& mine, bool patiently) {
  std::vector<std::string> all;
  worker.run(
      kName, [&](Communicator& comm) { return allgather_blobs(comm, mine, all); }, kCpu, patiently);
  require_equal(all);
}

}  // namespace laconic::dist
