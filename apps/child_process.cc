#include "apps/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/error.h"

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
  for (char** e = environ; *e; ++e) {
    const std::string_view entry(*e);
    bool drop = entry.starts_with("OPENBLAS_") || entry.starts_with("OMP_") || entry.starts_with("OMPI_") ||
                entry.starts_with("PMIX_");
    for (const auto& [name, value] : extra) drop |= entry.starts_with(name + "=");
    if (!drop) result.emplace_back(entry);
  }
  for (const auto& [name, value] : extra) result.push_back(name + "=" + value);
  return result;
}

int spawn(const std::vector<std::string>& command, const ChildProcess::Environment& extra,
          posix_spawn_file_actions_t& actions, int* pid) {
  std::vector<std::string> arguments = command, environment = clean_environment(extra);
  std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  return posix_spawnp(pid, argv[0], &actions, nullptr, argv.data(), envp.data());
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, const Environment& extra) : name_(command.at(0)) {
  int to[2], from[2];
  require<Error>(pipe2(to, O_CLOEXEC) == 0, "bench: no pipe to ", name_, " (", std::strerror(errno), ").");
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]), close(to[1]);
    throw Error(concat("bench: no pipe from ", name_, " (", std::strerror(errno), ")."));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  const int failed = spawn(command, extra, actions, &pid_);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]), close(from[1]);
  in_ = to[1], out_ = from[0];
  if (failed) {
    close(in_), close(out_);
    throw Error(concat("bench: cannot start ", name_, " (", std::strerror(failed), ")."));
  }
  signal(SIGPIPE, SIG_IGN);  // a child that is gone is reported by send()
}

ChildProcess::~ChildProcess() {
  close(in_);
  close(out_);
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(in_, text.data() + done, text.size() - done);
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
    const ssize_t n = read(out_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    require<Error>(n > 0, "bench: ", name_, " ended without an answer. Run it by hand to see why.");
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

bool succeeds(const std::vector<std::string>& command) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int fd : {0, 1, 2})
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
  int pid = -1, status = 0;
  const int failed = spawn(command, {}, actions, &pid);
  posix_spawn_file_actions_destroy(&actions);
  return !failed && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run_to_files(const std::vector<std::string>& command, const std::string& out_path, const std::string& err_path,
                 const std::function<bool()>& watch) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int pid = -1, status = 0;
  const int failed = spawn(command, {}, actions, &pid);
  posix_spawn_file_actions_destroy(&actions);
  require<Error>(!failed, "cannot start ", command[0], " (", std::strerror(failed), ").");
  bool asked = false;
  for (int rounds = 0; waitpid(pid, &status, WNOHANG) == 0; ++rounds) {
    usleep(20'000);
    if (rounds % 10 == 9 && !watch() && !std::exchange(asked, true)) kill(pid, SIGTERM);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace laconic
