#pragma once
#include <unistd.h>

#include <cstddef>
#include <string>

#include "core/base/clock.h"

namespace laconic {

/// Columns of the terminal that a stream is, standard output or standard error; 0 if it is none, or a dumb one. Under
/// mpirun standard output is a terminal of mpirun's own. LACONIC_COLUMNS, which `laconic launch` sets, then says
/// whether the output ends in a terminal; without it the answer is 0. The width is that of the terminal where all was
/// started, or LACONIC_COLUMNS elsewhere.
int terminal_columns(int stream = STDOUT_FILENO);

/// No line of --help is longer: 100, or the columns of a narrower terminal, but at least 60.
std::size_t help_columns();

/// Returns a line of --help, "  HEAD    TEXT" with its end; or several, with the text in the same column, from 0.
std::string help_line(const std::string& head, const std::string& text, std::size_t column);

/// Returns the text with its lines broken at blanks where the terminal is narrower; as it is where there is none.
std::string for_terminal(const std::string& text);

/// Says on stderr what a tool is doing, a line at a time. A terminal has it redrawn; elsewhere it is said at most
/// every 20 s.
class StatusLine {
 public:
  explicit StatusLine(bool quiet) : quiet_(quiet), columns_(terminal_columns(STDERR_FILENO)) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Says what goes on now.
  void show(const std::string& text);
  /// Says what has come to its end, in a line that stays.
  void line(const std::string& text);
  void clear();

 private:
  bool quiet_;
  int columns_;
  std::string shown_;  // the line that is redrawn
  Clock::time_point said_ = Clock::now();
};

}  // namespace laconic
