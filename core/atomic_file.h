#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace laconic {

/// A file that appears under its name complete, or not at all: it is written under a temporary name in the same
/// directory, and commit() syncs it, renames it over the old one and syncs the directory. Destroyed without commit(),
/// it leaves no trace, and what had the name before is untouched.
/// Throws DataError with the path and the system's reason (no such directory, disk full, ...).
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail(const char* doing, int reason) const;
  std::string path_, temporary_;
  int fd_ = -1;
};

}  // namespace laconic
