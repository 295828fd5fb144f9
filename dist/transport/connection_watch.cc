#include "dist/transport/connection_watch.h"

#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/base/settings.h"

namespace laconic::dist {
namespace {

/// The value of a variable in the contents of an `environ`; "" if it is not there.
std::string variable_in(const std::string& variables, const std::string& name) {
  const std::string begin = std::string(1, '\0') + name + "=", all = std::string(1, '\0') + variables;
  const auto at = all.find(begin);
  return at == std::string::npos ? "" : std::string(all.c_str() + at + begin.size());
}

constexpr const char *kJob = "PMIX_NAMESPACE", *kRank = "OMPI_COMM_WORLD_RANK";

int own_rank() {
  const char* const rank = std::getenv(kRank);
  return rank ? std::atoi(rank) : 0;
}

std::string ranks_are(const std::vector<int>& ranks, const char* one, const char* several) {
  return fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? one : several);
}

}  // namespace

bool first_here_to_say(const std::string& sentence) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;  // a name that begins with 0 is no file
  const std::string text = concat("laconic-says-", ::getppid(), "-", std::hash<std::string>()(sentence));
  text.copy(name.sun_path + 1, sizeof name.sun_path - 2);
  const int held = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return ::bind(held, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 || errno != EADDRINUSE;
}

std::vector<int> stopped_ranks() {
  std::set<int> stopped;
  const char* const job = std::getenv(kJob);
  std::error_code none;
  for (const auto& process : std::filesystem::directory_iterator("/proc", none)) {
    const std::string state = text_of_file(process.path() / "stat").value_or("");  // "1234 (name) T ..."
    const auto name_ends = state.rfind(") ");
    if (name_ends == std::string::npos || (state[name_ends + 2] != 'T' && state[name_ends + 2] != 't')) continue;
    const std::string variables = text_of_file(process.path() / "environ").value_or("");
    if (job == nullptr || variable_in(variables, kJob) != job) continue;
    if (const auto rank = number_from<int>(variable_in(variables, kRank))) stopped.insert(*rank);
  }
  return {stopped.begin(), stopped.end()};
}

ConnectionWatch::ConnectionWatch(double seconds) {
  thread_ = std::thread([this, seconds] {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return connected_; })) end(seconds);
  });
}

ConnectionWatch::~ConnectionWatch() {
  {
    const std::lock_guard lock(mutex_);
    connected_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ConnectionWatch::waits_for(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  missing_ = std::move(ranks);
}

/// All that are left come here at once. Who can name one rank says it first, rank 0 before others: mpirun ends these
/// before they do.
void ConnectionWatch::end(double seconds) const {
  const std::vector<int> stopped = stopped_ranks();
  const int rank = own_rank();
  const LostRank error(
      concat("mpi: not all ranks are connected after ", seconds, " s: ",
             !stopped.empty()    ? ranks_are(stopped, "is stopped", "are stopped")
             : !missing_.empty() ? ranks_are(missing_, "was not heard of", "were not heard of")
                                 : "one is stopped, or cannot be reached",
             ". Raise `timeout` if that is only slow",
             stopped.empty() ? "; laconic doctor --hosts A,B looks at the network between hosts." : "."));
  // One that was heard of may wait for the missing one, and say no more.
  const bool certain = !stopped.empty() || missing_.size() == 1;
  std::this_thread::sleep_for(
      std::chrono::milliseconds((rank == 0 ? 0 : 1500 + 250 * std::min(rank, 6)) + (certain ? 0 : 3000)));
  if (first_here_to_say("not all ranks are connected"))
    std::fputs(concat("laconic: error: ", Settings::as_options(error.what()), "\n").c_str(), stderr);
  else
    std::this_thread::sleep_for(std::chrono::seconds(2));  // mpirun passes that on first
  std::_Exit(exit_code_of(error));
}

}  // namespace laconic::dist
