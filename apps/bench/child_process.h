#pragma once
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// A program that answers lines: what a benchmark runs beside itself. Spawned without a shell, with OPENBLAS_*, OMP_* and
/// OMPI_* taken out of its environment; ended when the object goes.
class ChildProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;
  /// throws Error if the program cannot be started
  ChildProcess(const std::vector<std::string>& command, const Environment& extra);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Sends a line (without its end). throws Error if the program is gone
  void send(const std::string& line);
  /// The next line of its output. throws Error if it ended first
  std::string receive();
  std::string ask(const std::string& line) {
    send(line);
    return receive();
  }

 private:
  std::string name_;
  int pid_ = -1, in_ = -1, out_ = -1;
  std::string buffer_;
};

/// Runs a command to its end with the same cleaned environment and tells whether it succeeded; output thrown away.
bool succeeds(const std::vector<std::string>& command);

}  // namespace laconic
