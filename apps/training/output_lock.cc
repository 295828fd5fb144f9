#include "apps/training/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/base/error.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

std::pair<unsigned long, unsigned long> file_of(const struct stat& info) { return {info.st_dev, info.st_ino}; }

/// Whether other runs could be writing to the same one.
bool is_shared(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !path.empty() && !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status));
}

void require_free(bool is_free, const std::string& path, const char* option, const char* another) {
  require<UsageError>(is_free, "another run writes to ", path, " now (", option, "): give another ", another,
                      ", or wait for its end");
}

}  // namespace

OutputLocks::~OutputLocks() {
  for (const Held& h : held_) {
    if (!h.removed.empty()) ::unlink(h.removed.c_str());  // while it is locked: nobody else has it
    ::close(h.fd);
  }
}

void OutputLocks::take_file(const std::string& path, const char* option) {
  if (is_shared(path)) require_free(take(path, O_WRONLY | O_CREAT | O_APPEND), path, option, "file");
}

void OutputLocks::take_folder(const std::string& path, const char* option) {
  if (!is_shared(path)) return;
  std::error_code no_matter;  // whoever writes there says so
  fs::create_directories(path, no_matter);
  require_free(take(path, O_RDONLY | O_DIRECTORY), path, option, "folder");
}

void OutputLocks::take_name(const std::string& path, const char* option) {
  if (!is_shared(path)) return;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  const std::string lock = (error ? path : whole.string()) + ".lock";
  const std::size_t before = held_.size();
  require_free(take(lock, O_WRONLY | O_CREAT), path, option, "file");
  if (held_.size() > before) held_.back().removed = lock;
}

/// False: another run holds it. What counts is the file that has the name: another run may just have removed it.
bool OutputLocks::take(const std::string& path, int flags) {
  for (int trial = 0; trial < 100; ++trial) {
    const int fd = ::open(path.c_str(), flags | O_NOCTTY | O_CLOEXEC, 0666);
    struct stat opened {
    }, named{};
    if (fd < 0 || ::fstat(fd, &opened) != 0) return true;
    const auto is_ours = [&](const Held& h) { return h.file == file_of(opened); };
    if (std::ranges::any_of(held_, is_ours)) return ::close(fd) == 0;
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    const bool taken = !locked && errno == EWOULDBLOCK;
    if (locked && ::stat(path.c_str(), &named) == 0 && file_of(named) == file_of(opened)) {
      held_.push_back({fd, file_of(opened), ""});
      return true;
    }
    ::close(fd);
    if (taken) return false;
    if (!locked) return true;
  }
  return true;
}

}  // namespace laconic
