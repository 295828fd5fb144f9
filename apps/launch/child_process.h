#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace laconic {

/// Whether an entry of an environment, "NAME=value", was meant for another program or another run of MPI: OPENBLAS_*,
/// OMP_*, GOMP_*, KMP_*, OMPI_* and PMIX_*, and by which a launcher tells its processes how many they are. None of them is
/// handed down to the programs that are started here.
bool is_for_others(std::string_view entry);

/// This process's environment, as "NAME=value".
std::vector<std::string> own_environment();
/// The whole number that an environment gives by that name; nothing: it does not.
std::optional<int> number_in(const std::vector<std::string>& environment, const std::string& name);

/// A program as it is started here: without a shell, with what is_for_others taken out of its environment.
struct ProgramStart {
  std::vector<std::string> words;                                ///< words[0] is looked for in PATH
  std::vector<std::pair<std::string, std::string>> environment;  ///< set beside what this process has
  int death_signal;               ///< what the program gets when the thread that started it ends, however it ends
  std::function<bool()> prepare;  ///< called in the child before it becomes the program; false: errno tells why not
};
/// Returns 0, or the error number that kept the program from starting.
int start_program(ProgramStart start, int* pid);

/// A program that answers lines: what a benchmark runs beside itself. Killed if this process ends without doing so;
/// ended when the object goes.
class ChildProcess {
 public:
  using Environment = decltype(ProgramStart::environment);
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
  int pid_ = -1, line_ = -1;  // line_ : a socket, its input and its output
  std::string buffer_;
};

/// A program that runs beside this one with the same cleaned environment, its output in files. Killed if this process
/// ends before it, and when the object goes.
class BackgroundProgram {
 public:
  /// throws Error if it cannot be started
  BackgroundProgram(const std::vector<std::string>& command, const std::string& out_path, const std::string& err_path);
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  int pid() const { return pid_; }
  /// The exit code, or 128 and the signal that ended it; nothing while it runs.
  std::optional<int> ended();

 private:
  int pid_ = -1;
  std::optional<int> ended_;
};

/// Runs a command to its end with the same cleaned environment and its output in files. `watch` is called five times a
/// second; once it returns false, the command is asked to stop (SIGTERM), and killed after so many seconds. Killed,
/// too, if this process ends before it. Returns the exit code, or 128 and the signal that ended it. throws Error if it
/// cannot be started
int run_to_files(const std::vector<std::string>& command, const std::string& out_path, const std::string& err_path,
                 const std::function<bool()>& watch, double patience_seconds = 30);

/// How a command ended.
struct CommandResult {
  int code = 0;              ///< its exit code; kNotStarted, or kEndless: it was killed, for it did not end
  std::string out{}, why{};  ///< what it printed; the sentence that it failed with
  static constexpr int kNotStarted = -1, kEndless = -2;
};
/// Runs a command with the same cleaned environment to its end, or kills it after so many seconds.
CommandResult result_of(const std::vector<std::string>& command, double seconds);
/// Whether a command succeeds, however long it takes.
inline bool succeeds(const std::vector<std::string>& command) { return result_of(command, 1e6).code == 0; }
/// The command that runs this line of a shell on another machine, as mpirun would, and asks for nothing.
std::vector<std::string> over_ssh(const std::string& host, const std::string& line);

/// The last line of a file that is not empty; "": it has none, or cannot be read.
std::string last_line_of(const std::string& path);

/// What a program said last of all.
struct LastWords {
  std::string text{};     ///< its error's sentence if it has one, else its last line; "": it said nothing
  bool is_error = false;  ///< of ours: "laconic: error: TEXT"
};
/// Reads them from the file that its stderr went into.
LastWords last_words(const std::string& err_path);

}  // namespace laconic
