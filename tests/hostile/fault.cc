// Preloaded into a program: its Nth operation on files below a folder fails, or ends the process.
//   HOSTILE_UNDER=DIR   which files        HOSTILE_AT=N   counted from 1        HOSTILE_DO=kill|EIO|ENOSPC
// HOSTILE_COUNT=FILE gets a byte for each operation: how many there are to choose from.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// True if this operation is to fail; errno says why.
bool fails(const char* path) {
  static const char* const under = std::getenv("HOSTILE_UNDER");
  static const char* const at = std::getenv("HOSTILE_AT");
  static const char* const what = std::getenv("HOSTILE_DO");
  static const char* const count = std::getenv("HOSTILE_COUNT");
  static std::atomic<long> operations{0};
  if (under == nullptr || path == nullptr || std::strncmp(path, under, std::strlen(under)) != 0) return false;
  const long n = ++operations;
  if (count != nullptr) {
    const int file = next<int (*)(const char*, int, ...)>("open")(count, O_WRONLY | O_CREAT | O_APPEND, 0600);
    next<ssize_t (*)(int, const void*, std::size_t)>("write")(file, ".", 1);
    close(file);
  }
  if (at == nullptr || what == nullptr || n != std::atol(at)) return false;
  if (std::strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
  errno = std::strcmp(what, "ENOSPC") == 0 ? ENOSPC : EIO;
  return true;
}

bool fails(int fd) {
  char path[4096];
  const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = 0;
  return fails(path);
}

int open_with(const char* name, const char* path, int flags, std::va_list arguments) {
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  if ((flags & O_ACCMODE) != O_RDONLY && fails(path)) return -1;
  return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const int fd = open_with("open", path, flags, arguments);
  va_end(arguments);
  return fd;
}
int open64(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const int fd = open_with("open64", path, flags, arguments);
  va_end(arguments);
  return fd;
}
ssize_t write(int fd, const void* data, std::size_t size) {
  return fails(fd) ? -1 : next<ssize_t (*)(int, const void*, std::size_t)>("write")(fd, data, size);
}
int fsync(int fd) { return fails(fd) ? -1 : next<int (*)(int)>("fsync")(fd); }
int rename(const char* from, const char* to) {
  return fails(to) ? -1 : next<int (*)(const char*, const char*)>("rename")(from, to);
}
int unlink(const char* path) { return fails(path) ? -1 : next<int (*)(const char*)>("unlink")(path); }
int remove(const char* path) { return fails(path) ? -1 : next<int (*)(const char*)>("remove")(path); }
int mkdir(const char* path, mode_t mode) {
  return fails(path) ? -1 : next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

}  // extern "C"
