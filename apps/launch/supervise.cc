#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "apps/launch/child_process.h"
#include "apps/launch/launch.h"
#include "apps/main.h"
#include "apps/launch/mpirun.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace laconic {
namespace {

constexpr std::chrono::seconds kAfterVerdict{10}, kAfterSigterm{2};

/// Folders for what Open MPI writes: its sessions, and the memory that the ranks share. A process of its own, the
/// keeper, removes them when this one and mpirun have ended, however they end. It waits for mpirun because mpirun
/// removes files there too: two that empty one folder at once may each stop at a file that the other has just removed.
class Scratch {
 public:
  Scratch() {
    std::error_code error;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
    const std::string sessions = error ? "" : made(temporary);
    require<DataError>(!sessions.empty(), "launch: no temporary folder could be made (",
                       error ? error.message() : std::strerror(errno), "): set TMPDIR to a folder that can be written");
    require_room(sessions);
    const std::string shared = made("/dev/shm");
    for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"})
      environment_.emplace_back(name, sessions);
    for (const char* name : {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"})
      if (!shared.empty()) environment_.emplace_back(name, shared);

    int ends[2];
    require<Error>(pipe2(ends, O_CLOEXEC) == 0, "launch: no pipe (", std::strerror(errno), ").");
    keeper_ = fork();
    if (keeper_ == 0) {
      setsid();  // no signal of the terminal reaches it, nor one to all processes of a job
      for (const int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_IGN);
      for (const int fd : {0, 1, 2, ends[1]}) ::close(fd);
      for (char byte; ::read(ends[0], &byte, 1) < 0 && errno == EINTR;) {
      }
      remove();
      _exit(0);
    }
    ::close(ends[0]);
    alive_ = ends[1];
  }
  ~Scratch() {
    ::close(alive_);
    if (keeper_ > 0) waitpid(keeper_, nullptr, 0);
    remove();  // where the keeper could not
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const ChildProcess::Environment& environment() const { return environment_; }
  pid_t keeper() const { return keeper_; }
  /// In the child that becomes mpirun: the keeper waits for its end too.
  bool keep_for_mpirun() const { return fcntl(alive_, F_SETFD, 0) == 0; }

 private:
  /// A new folder, or "" where there can be none. Its name is short: Open MPI's sockets lie below it.
  std::string made(const std::filesystem::path& parent) {
    std::string name = parent / "laconic-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) return "";
    folders_.push_back(name);
    return name;
  }
  /// mpirun sleeps for ever where there is no room for its files.
  void require_room(const std::string& folder) const {
    constexpr off_t kRoom = 4 << 20;
    const std::string path = folder + "/room";
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const int failed = fd < 0 ? errno : posix_fallocate(fd, 0, kRoom);
    if (fd >= 0) ::close(fd);
    if (failed != 0) remove();
    require<DataError>(failed == 0, "launch: there is no room for Open MPI's files in ", folder, " (",
                       std::strerror(failed), "): free some space, or set TMPDIR to another folder");
    ::unlink(path.c_str());
  }
  void remove() const {
    std::error_code ignored;
    for (const auto& folder : folders_) std::filesystem::remove_all(folder, ignored);
  }

  std::vector<std::string> folders_;
  ChildProcess::Environment environment_;
  pid_t keeper_ = -1;
  int alive_ = -1;  // nothing is written there: its end is what the keeper waits for
};

void write_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody reads
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// The children of a process, whichever of its threads started them.
std::set<pid_t> children_of(pid_t parent) {
  std::error_code gone;
  std::set<pid_t> found;
  for (std::filesystem::directory_iterator thread(concat("/proc/", parent, "/task"), gone), end; !gone && thread != end;
       thread.increment(gone)) {
    std::ifstream in(thread->path() / "children");
    for (pid_t pid; in >> pid;) found.insert(pid);
  }
  return found;
}

/// Those of this process; orphaned descendants are among them (PR_SET_CHILD_SUBREAPER).
std::set<pid_t> children() { return children_of(getpid()); }

class Supervisor {
 public:
  explicit Supervisor(bool here) : notes_(!here) {
    strangers_ = children();  // of the shell that became this program
    if (here) scratch_.emplace();
    if (scratch_) strangers_.insert(scratch_->keeper());
    sigemptyset(&signals_);
    for (const int s : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals_, s);
    if (!ignores_hangup()) sigaddset(&signals_, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
    signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  ~Supervisor() {
    for (const int fd : {signal_fd_, from_mpirun_})
      if (fd >= 0) ::close(fd);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Ending run(const LaunchCommand& command) {
    begin(command);
    while (!status_) {
      pollfd watched[] = {{signal_fd_, POLLIN, 0}, {from_mpirun_, POLLIN, 0}};
      poll(watched, 2, milliseconds_left());
      take_signals();
      take_lines();
      if (notes_.verdict() && !ends_) ends_ = Clock::now() + kAfterVerdict;
      end_if_due();
    }
    take_lines();
    if (!line_.empty()) print_line(line_);
    const int code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
    // A signal to all processes of a job ends mpirun before the ranks can end in order.
    const bool all_signalled = interrupt_ && !ended_ && !notes_.verdict();
    if (!ended_) tell(notes_.end(all_signalled ? 0 : code));  // else how it ended says nothing of a rank
    end_descendants();
    Ending ending{.code = notes_.lost() || ended_ ? exit_code_of(LostRank("")) : code,
                  .interrupted = interrupt_.has_value(),
                  .why = why_};
    // Rank 0 tells the signal that came to it, or SIGINT where it heard of another rank's first.
    const bool stopped = code == 128 + SIGUSR1 || code == 128 + SIGINT;
    if (interrupt_ && (cut_short_ || stopped || (all_signalled && code != 0))) ending.code = 128 + *interrupt_;
    return ending;
  }

 private:
  void begin(const LaunchCommand& command) {
    int ends[2];
    require<Error>(pipe2(ends, O_CLOEXEC) == 0, "launch: no pipe to mpirun (", std::strerror(errno), ").");
    ChildProcess::Environment environment(command.set.begin(), command.set.end());
    if (scratch_)
      environment.insert(environment.end(), scratch_->environment().begin(), scratch_->environment().end());
    const auto prepare = [&] {
      setpgid(0, 0);
      const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);  // in the background nobody may read the terminal
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      return dup2(nothing, 0) == 0 && dup2(ends[1], 2) == 2 && (!scratch_ || scratch_->keep_for_mpirun());
    };
    const int failed = start_program({command.words, environment, SIGTERM, prepare}, &mpirun_);
    ::close(ends[1]);
    from_mpirun_ = ends[0];
    fcntl(from_mpirun_, F_SETFL, O_NONBLOCK);
    require<Error>(failed == 0, "launch: mpirun could not be started: ", std::strerror(failed), ".");
  }

  int milliseconds_left() const {
    if (!ends_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*ends_ - Clock::now());
    return std::max(0, static_cast<int>(left.count()));
  }

  void take_signals() {
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD)
        reap();
      else if (!interrupt_)
        ask_for_end(number);
      else if (Clock::now() - asked_ > kSameInterrupt)
        cut_short_ = true, ends_ = Clock::now();
    }
  }

  void ask_for_end(int signal_number) {
    interrupt_ = signal_number;
    asked_ = Clock::now();
    reap();                     // it may have ended just before
    if (has_begun_nothing()) {  // mpirun would pass a signal on to nobody, and there is nothing to save
      cut_short_ = true, ends_ = asked_;
      return;
    }
    notes_.expect(SIGUSR1);
    kill(mpirun_, SIGUSR1);
  }

  /// Whether mpirun, with all ranks here, has started none yet. Not every kernel tells children.
  bool has_begun_nothing() const {
    return scratch_ && !status_ && children().contains(mpirun_) && children_of(mpirun_).empty();
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
      if (pid == mpirun_) status_ = status;
  }

  void take_lines() {
    char bytes[4096];
    ssize_t n;
    while ((n = ::read(from_mpirun_, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR)) {
      line_.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
      std::erase(line_, '\0');  // prterun ends some of its notes with one
      for (std::size_t end; (end = line_.find('\n')) != line_.npos; line_.erase(0, end + 1))
        print_line(line_.substr(0, end));
    }
    if (n == 0 && from_mpirun_ >= 0) ::close(std::exchange(from_mpirun_, -1));  // mpirun ended
  }

  /// mpirun's own words after it was ended are about that.
  void print_line(const std::string& line) {
    if (!ended_ || line.starts_with("laconic: ")) tell(notes_.take(line));
  }

  void tell(const std::string& text) {
    write_stderr(text);
    constexpr std::string_view kError = "laconic: error: ";
    const auto at = text.find(kError);
    if (why_.empty() && at != text.npos && (at == 0 || text[at - 1] == '\n')) {
      const auto from = at + kError.size();
      why_ = text.substr(from, text.find('\n', from) - from);
    }
  }

  /// mpirun had its time: SIGTERM, and after that SIGKILL to its group.
  void end_if_due() {
    if (!ends_ || Clock::now() < *ends_) return;
    for (const int s : {SIGTERM, SIGKILL}) notes_.expect(s);
    if (!ended_)
      kill(mpirun_, SIGTERM);
    else
      kill(-mpirun_, SIGKILL);
    ended_ = true;
    ends_ = Clock::now() + kAfterSigterm;
  }

  void end_descendants() const {
    for (bool any = true; any;) {
      any = false;
      for (const pid_t pid : children()) {
        if (strangers_.contains(pid)) continue;
        any = true;
        kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
      }
    }
  }

  std::optional<Scratch> scratch_;  // another machine would not have its folders
  std::set<pid_t> strangers_;       // children that are not mpirun's
  MpirunNotes notes_;
  sigset_t signals_, before_;
  int signal_fd_ = -1, from_mpirun_ = -1;
  pid_t mpirun_ = -1;
  std::string why_;                         // the first error's sentence
  std::string line_;                        // of mpirun's stderr, without its end
  std::optional<int> status_;               // how mpirun ended
  std::optional<int> interrupt_;            // the first signal that came here
  Clock::time_point asked_;                 // when
  bool cut_short_ = false, ended_ = false;  // by a second one; by SIGTERM from here
  std::optional<Clock::time_point> ends_;   // when mpirun gets its next signal
};

}  // namespace

Ending supervise(const LaunchCommand& command) { return Supervisor(command.here).run(command); }

}  // namespace laconic
