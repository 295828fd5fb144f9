#pragma once
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "tests/temp_folder.h"

namespace laconic {

/// How a program ended, and what it wrote.
struct Result {
  int exit_code;  ///< -1: by a signal; 124: after ten minutes
  std::string out, err;
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Open MPI unloads its components before the leak checker looks: suppressions could not name what they left.
inline std::string environment_of(const std::string& command) {
  return command.find("launch") != std::string::npos ? "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" " : "";
}

/// Runs PROGRAM ARGUMENTS of this build through the shell; no longer than ten minutes. `before` stands in front of it:
/// "VARIABLE=value ", "cd somewhere; ".
inline Result run(const std::string& command, const std::string& before = "") {
  const TempFolder dir;
  const std::string out = dir.path() + "/out", err = dir.path() + "/err";
  const std::string line = "{ " + before + " " + environment_of(command) + "timeout 600 " LACONIC_APPS "/" + command +
                           "; } >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(out), file_text(err)};
}

/// What PROGRAM ARGUMENTS of this build shows in a terminal that is so wide; "": no terminal can be made here.
inline std::string shown_in_terminal(const std::string& command, unsigned short columns) {
  int terminal = -1;
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) return "";
  if (child == 0) {
    const std::string line = "TERM=xterm " + environment_of(command) + "exec timeout 600 " LACONIC_APPS "/" + command;
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  std::string shown;
  char part[4096];
  for (ssize_t n; (n = ::read(terminal, part, sizeof part)) > 0;) shown.append(part, static_cast<std::size_t>(n));
  ::close(terminal);
  ::waitpid(child, nullptr, 0);
  std::erase(shown, '\r');
  return shown;
}

/// Waits until it is true, up to five minutes.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 30000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// A program of this build that runs beside the test. Killed at the end of its life.
class Background {
 public:
  explicit Background(const std::string& command) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive a test that was ended
    const std::string line = environment_of(command) + "exec " LACONIC_APPS "/" + command;
    for (auto [fd, name] : {std::pair{1, "/out"}, std::pair{2, "/err"}})
      ::dup2(::open((dir_.path() + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), fd);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ~Background() {
    if (running_) ::kill(-pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return file_text(dir_.path() + "/out"); }  ///< so far
  void signal(int number) const { ::kill(pid_, number); }
  /// Its end; after five minutes its exit code is 124.
  Result wait() {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return {124, "", "still running"};
    running_ = false;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(dir_.path() + "/out"),
            file_text(dir_.path() + "/err")};
  }

 private:
  const TempFolder dir_;
  pid_t pid_ = -1;
  bool running_ = true;
};

}  // namespace laconic
