#pragma once
#include <set>
#include <string>

namespace laconic {

/// Reads what mpirun and the ranks write to stderr, line by line. mpirun puts its own notes between two lines of
/// dashes. Notes about how a rank ended are left out. One sentence of ours names a rank that a signal ended; a rank
/// that failed has said so itself, and what others then say is left out. Every other line passes as it is. Knows Open
/// MPI 4, 5 and 6 (prterun).
class MpirunNotes {
 public:
  explicit MpirunNotes(bool several_hosts) : several_hosts_(several_hosts) {}

  /// Returns the text to print for the next line (given without its end): nothing, or whole lines.
  std::string take(const std::string& line);
  /// Returns the text to print when mpirun has ended with this exit code: the lines that were held back, and one
  /// sentence if a rank, or mpirun itself, failed without any.
  std::string end(int exit_code);

  /// Ranks that this signal ends are not told: it was asked for.
  void expect(int signal) { expected_.insert(signal); }

  /// A rank has said what is wrong ("laconic: error:"), or was ended by a signal: all others have to end.
  bool verdict() const { return said_ || lost_; }
  bool lost() const { return lost_; }  ///< a signal ended a rank, and it was not expected

 private:
  std::string close(const std::string& end);
  std::string lose(const std::string& rank, int signal);

  bool several_hosts_, said_ = false, lost_ = false;
  bool silent_ = true;    // not a line has come
  bool repeats_ = false;  // what comes is another rank's error, after the first
  std::set<int> expected_;
  bool as_asked_ = false;    // a signal ended a rank, and it was expected
  bool failed_ = false;      // a rank ended with an exit code other than 0
  std::string failed_rank_;  // which, if mpirun came to telling that
  std::string dashes_;  // a line of dashes: what follows tells what it begins, or that it ended something
  std::string note_;    // one of mpirun's notes about a rank, up to now; with the dashes
};

}  // namespace laconic
