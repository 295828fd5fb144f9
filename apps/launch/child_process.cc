#include "apps/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "core/base/atomic_file.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/parse.h"

extern char** environ;

namespace laconic {
namespace {

/// argv or envp: C strings that stay alive as long as the vector.
std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (auto& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

std::vector<std::string> clean_environment(const ChildProcess::Environment& extra) {
  std::vector<std::string> result;
  for (std::string& entry : own_environment()) {
    bool drop = is_for_others(entry);
    for (const auto& [name, value] : extra) drop |= entry.starts_with(name + "=");
    if (!drop) result.push_back(std::move(entry));
  }
  for (const auto& [name, value] : extra) result.push_back(name + "=" + value);
  return result;
}

/// Makes `fd` a file.
bool becomes_file(int fd, const char* path, int flags) {
  const int opened = open(path, flags | O_CLOEXEC, 0600);
  return opened >= 0 && dup2(opened, fd) == fd;
}

constexpr int kToWrite = O_WRONLY | O_CREAT | O_TRUNC;

/// A file that has no name, in memory.
struct MemoryFile {
  MemoryFile() : fd(memfd_create("laconic", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(fd); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return concat("/proc/self/fd/", fd); }  ///< here, and in a child until it is a program

  const int fd;
};

}  // namespace

bool is_for_others(std::string_view entry) {
  return entry.starts_with("OPENBLAS_") || entry.starts_with("OMP_") || entry.starts_with("GOMP_") ||
         entry.starts_with("KMP_") || entry.starts_with("OMPI_") || entry.starts_with("PMIX_") ||
         entry.starts_with("PMI_RANK=") || entry.starts_with("PMI_SIZE=") || entry.starts_with("RANK=") ||
         entry.starts_with("WORLD_SIZE=") || entry.starts_with("SLURM_STEP_NUM_TASKS=");
}

std::vector<std::string> own_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  return environment;
}

std::optional<int> number_in(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment)
    if (entry.starts_with(name + "=")) return number_from<int>(entry.substr(name.size() + 1));
  return std::nullopt;
}

int start_program(ProgramStart start, int* pid) {
  std::vector<std::string> environment = clean_environment(start.environment);
  const std::vector<char*> argv = pointers(start.words), envp = pointers(environment);
  int from_child[2];  // its error number, or nothing: exec closes it
  if (pipe2(from_child, O_CLOEXEC) != 0) return errno;
  signal(SIGCHLD, SIG_DFL);  // a program that ignores it hears of no child's end
  const int parent = getpid();
  *pid = fork();
  if (*pid == 0) {
    prctl(PR_SET_PDEATHSIG, start.death_signal);
    if (getppid() != parent) _exit(1);
    if (start.prepare()) execvpe(argv[0], argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(from_child[1], &error, sizeof error);
    _exit(127);
  }
  int error = *pid < 0 ? errno : 0;
  close(from_child[1]);
  while (*pid > 0 && read(from_child[0], &error, sizeof error) < 0 && errno == EINTR) {
  }
  close(from_child[0]);
  if (*pid > 0 && error != 0) waitpid(*pid, nullptr, 0);
  return error;
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, const Environment& extra) : name_(command.at(0)) {
  int ends[2];
  require<Error>(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "bench: no socket to ", name_, " (",
                 std::strerror(errno), ").");
  const auto connect = [&] { return dup2(ends[1], 0) == 0 && dup2(ends[1], 1) == 1; };
  const int failed = start_program({command, extra, SIGKILL, connect}, &pid_);
  close(ends[1]);
  line_ = ends[0];
  if (failed) close(line_);
  require<Error>(!failed, "bench: cannot start ", name_, " (", std::strerror(failed), ").");
}

ChildProcess::~ChildProcess() {
  close(line_);
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::send(line_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    require<Error>(n > 0, "bench: ", name_, " ended before it was told '", line, "'. Run it by hand to see why.");
    done += static_cast<std::size_t>(n);
  }
}

std::string ChildProcess::receive() {
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    char chunk[4096];
    const ssize_t n = read(line_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    require<Error>(n > 0, "bench: ", name_, " ended without an answer. Run it by hand to see why.");
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& command, const std::string& out_path,
                                     const std::string& err_path) {
  const auto into_files = [&] {
    return becomes_file(0, "/dev/null", O_RDONLY) && becomes_file(1, out_path.c_str(), kToWrite) &&
           becomes_file(2, err_path.c_str(), kToWrite);
  };
  const int failed = start_program({command, {}, SIGKILL, into_files}, &pid_);
  require<Error>(!failed, "cannot start ", command[0], " (", std::strerror(failed), ").");
}

BackgroundProgram::~BackgroundProgram() {
  if (ended()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> BackgroundProgram::ended() {
  int status = 0;
  if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_)
    ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended_;
}

int run_to_files(const std::vector<std::string>& command, const std::string& out_path, const std::string& err_path,
                 const std::function<bool()>& watch, double patience_seconds) {
  BackgroundProgram program(command, out_path, err_path);
  std::optional<Clock::time_point> asked;
  for (int rounds = 0; !program.ended(); ++rounds) {
    usleep(20'000);
    if (rounds % 10 != 9 || watch()) continue;
    if (asked && seconds_since(*asked) > patience_seconds) kill(program.pid(), SIGKILL);
    if (!asked) asked = Clock::now(), kill(program.pid(), SIGTERM);
  }
  return *program.ended();
}

CommandResult result_of(const std::vector<std::string>& command, double seconds) try {
  const MemoryFile out, err;
  BackgroundProgram program(command, out.path(), err.path());
  for (const auto begin = Clock::now(); !program.ended() && seconds_since(begin) < seconds;) usleep(5'000);
  return {program.ended().value_or(CommandResult::kEndless), text_of_file(out.path()).value_or(""),
          last_words(err.path()).text};
} catch (const Error& e) {
  return {CommandResult::kNotStarted, "", e.what()};
}

std::vector<std::string> over_ssh(const std::string& host, const std::string& line) {
  return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host, line};
}

std::string last_line_of(const std::string& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  return last;
}

LastWords last_words(const std::string& err_path) {
  constexpr std::string_view kError = "laconic: error: ";
  std::ifstream in(err_path);
  LastWords last;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kError)) return {line.substr(kError.size()), true};
    if (!line.empty()) last.text = line;
  }
  return last;
}

}  // namespace laconic
