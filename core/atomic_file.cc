#include "core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace laconic {
namespace {

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  static std::atomic<unsigned> counter{0};  // two threads may write the same path: the last commit wins
  temporary_ = concat(path_, ".", ::getpid(), ".", counter.fetch_add(1), ".tmp");
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("created", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, std::min(bytes, std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("written", errno);
    from += n, bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("written", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("written", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("put in place", errno);
  temporary_.clear();
  const int directory = ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {  // the new name survives a power cut; where a file system cannot say so, nothing is lost
    ::fsync(directory);
    ::close(directory);
  }
}

void AtomicFile::fail(const char* doing, int reason) const {
  const char* advice = reason == ENOSPC || reason == EDQUOT    ? "Free some space, or choose another place."
                       : reason == ENOENT || reason == ENOTDIR ? "Does the directory exist?"
                                                               : "Check the path and its permissions.";
  throw DataError(concat(path_, ": could not be ", doing, ": ", std::strerror(reason), ". ", advice));
}

}  // namespace laconic
