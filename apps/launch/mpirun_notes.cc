#include "apps/launch/mpirun_notes.h"

#include <csignal>
#include <cstring>  // sigabbrev_np
#include <regex>
#include <utility>

#include "core/base/error.h"
#include "core/base/parse.h"

namespace laconic {
namespace {

/// How the notes begin that may tell how a rank ended.
constexpr const char* kAboutRanks[] = {" noticed that process rank ", "terminated normally, but ",
                                       "detected that one or more processes exited with non-zero status",
                                       "MPI_ABORT was invoked on rank ", " has exited due to process rank "};

/// A longer text is none of mpirun's. std::regex goes as deep on the stack as its text is long.
constexpr std::size_t kLongestNote = 2000;

bool is_dashes(const std::string& line) { return line.size() > 60 && line.find_first_not_of('-') == line.npos; }

bool is_about_ranks(const std::string& line) {
  for (const char* beginning : kAboutRanks)
    if (line.find(beginning) != line.npos) return true;
  return false;
}

/// "SIGKILL (out of memory?)"
std::string named(int signal) {
  const char* name = sigabbrev_np(signal);
  std::string text = name ? concat("SIG", name) : "which has no name";
  switch (signal) {
    case SIGKILL: return text + " (out of memory?)";
    case SIGBUS: return text + " (is /dev/shm full?)";
    case SIGSEGV:
    case SIGILL:
    case SIGFPE:
    case SIGABRT: return text + " (a defect: report it with what stands above)";
    default: return text;
  }
}

}  // namespace

std::string MpirunNotes::take(const std::string& line) {
  silent_ = false;
  const bool ours = line.starts_with("laconic: "), error = line.starts_with("laconic: error: ");
  // Ranks that wait for the same lost one may say so at the same time.
  repeats_ = (said_ && line.starts_with("laconic: error: engine: ")) || (repeats_ && line.starts_with("  rank "));
  if (repeats_ || (verdict() && line.find("ORTE_ERROR_LOG") != line.npos)) return "";
  said_ |= error;
  if (!note_.empty() && !ours) {
    if (is_dashes(line)) return close(line);
    note_ += line + "\n";
    return note_.size() > kLongestNote ? std::exchange(note_, "") : "";
  }
  if (is_dashes(line)) return std::exchange(dashes_, line + "\n");
  if (line.find("run: Forwarding signal ") != line.npos) return "";  // asked for from here
  if (!dashes_.empty() && line.empty()) return dashes_ += "\n", "";  // Open MPI 6 begins its notes so
  if (!dashes_.empty() && is_about_ranks(line) && line.size() < kLongestNote) {
    note_ = std::exchange(dashes_, "") + line + "\n";
    return "";
  }
  return std::exchange(dashes_, "") + line + "\n";
}

std::string MpirunNotes::end(int exit_code) {
  std::string text = std::exchange(note_, "") + std::exchange(dashes_, "");
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) expect(s);  // as an exit code: a training that they stopped in order
  if (exit_code != 0 && silent_) failed_ = true;            // Open MPI 5 does not always note it
  if (exit_code == 0 || verdict() || as_asked_ || expected_.contains(exit_code - 128)) return text;
  if (!failed_)
    return concat(text, "laconic: error: mpirun ended with exit code ", exit_code,
                  " (launch): see what it wrote before this.\n");
  const std::string rank = failed_rank_.empty() ? "a rank" : "rank " + failed_rank_;
  if (failed_rank_.empty() && exit_code > 128) return text + lose(rank, exit_code - 128);
  return concat(text, "laconic: error: ", rank, " ended with exit code ", exit_code,
                " (launch): see what it wrote before this.\n");
}

std::string MpirunNotes::lose(const std::string& rank, int signal) {
  lost_ = true;
  return concat("laconic: error: ", rank, " was ended by signal ", signal, ", ", named(signal), ".\n");
}

/// The end of a note: what to print in its place.
std::string MpirunNotes::close(const std::string& end) {
  static const std::regex signal(
      R"(process rank (\d+) with PID \d+\s+on\s+node\s+(\S+)\s+exited\s+on\s+signal\s+(\d+))"),
      failure(R"(Process name: \S*,(\d+)\]\s+Exit code:|MPI_ABORT was invoked on rank (\d+))"),
      some_failure("terminated normally, but"), told(R"(calling\s+"abort")");
  const std::string note = std::exchange(note_, "");
  std::smatch parts;
  if (std::regex_search(note, parts, signal)) {
    const int number = number_from<int>(parts[3].str()).value_or(0);
    if (expected_.contains(number)) return as_asked_ = true, "";
    return lose(concat("rank ", parts[1].str(), several_hosts_ ? " on " + parts[2].str() : ""), number);
  }
  if (std::regex_search(note, parts, failure)) {
    failed_ = true;
    failed_rank_ = parts[1].str() + parts[2].str();
    return "";
  }
  if (std::regex_search(note, some_failure)) {
    failed_ = true;
    return "";
  }
  return std::regex_search(note, told) ? "" : note + end + "\n";
}

}  // namespace laconic
