#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// A program that answers lines: what a benchmark runs beside itself. Spawned without a shell, with OPENBLAS_*, OMP_*
/// and OMPI_* taken out of its environment; ended when the object goes.
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

/// Runs a command to its end with the same cleaned environment and its output in files. `watch` is called five times a
/// second; once it returns false, the command is asked to stop (SIGTERM) and waited for. Returns the exit code, or 128
/// and the signal that ended it. throws Error if it cannot be started
int run_to_files(const std::vector<std::string>& command, const std::string& out_path, const std::string& err_path,
                 const std::function<bool()>& watch);

}  // namespace laconic
