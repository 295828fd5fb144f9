#include "core/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kTemporary = ".tmp";

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Where links lead, whether or not anything is there; `path` itself if they lead nowhere.
std::string behind_links(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the kernel's own limit
  fs::path at = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(at, error); ++i) {
    const fs::path next = fs::read_symlink(at, error);
    if (error) return path;
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return at.string();
}

/// Whether the path names something that is open already: no other file may take its name.
bool names_open_file(const std::string& path) {
  const std::string first = fs::is_symlink(path) ? fs::read_symlink(path).string() : "";
  return path.starts_with("/dev/fd/") || path.starts_with("/proc/") || first.starts_with("/proc/");
}

/// Whether `text` is "NUMBER.NUMBER.tmp".
bool is_mark_of_writer(std::string_view text) {
  if (!text.ends_with(kTemporary)) return false;
  text.remove_suffix(kTemporary.size());
  const auto dot = text.find('.');
  const auto is_number = [](std::string_view t) {
    return !t.empty() && t.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dot != std::string_view::npos && is_number(text.substr(0, dot)) && is_number(text.substr(dot + 1));
}

}  // namespace

void FileSum::add(const void* data, std::size_t size) {
  crc32 = static_cast<std::uint32_t>(::crc32_z(crc32, static_cast<const Bytef*>(data), size));
  bytes += size;
}

std::string FileSum::crc_text() const { return fmt::format("{:08x}", crc32); }

std::string FileSum::text() const { return fmt::format("{} {}", bytes, crc_text()); }

FileSum FileSum::parse(const std::string& text) {
  FileSum sum;
  const char* const end = text.data() + text.size();
  const auto length = std::from_chars(text.data(), end, sum.bytes);
  const bool spaced = length.ec == std::errc() && length.ptr != end && *length.ptr == ' ';
  const auto crc = std::from_chars(length.ptr + (spaced ? 1 : 0), end, sum.crc32, 16);
  require<DataError>(spaced && crc.ec == std::errc() && crc.ptr == end, "'", text, "' is no length and checksum.");
  return sum;
}

RandomAccessFile::RandomAccessFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  require<DataError>(fd_ >= 0, path, " cannot be opened: ", std::strerror(errno),
                     ". Check the path and its permissions.");
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) ::close(fd_);
  require<DataError>(regular, path, " is no file. Correct the path.");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

RandomAccessFile::~RandomAccessFile() { ::close(fd_); }

void RandomAccessFile::read(std::uint64_t offset, std::uint64_t bytes, void* to) const {
  for (std::uint64_t have = 0; have < bytes;) {
    const ssize_t n = ::pread(fd_, static_cast<std::byte*>(to) + have, bytes - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    require<DataError>(n >= 0, path_, " could not be read: ", std::strerror(errno), ". Is the disk all right?");
    require<DataError>(n > 0, path_, " became shorter while it was read. Is something else writing it?");
    have += static_cast<std::uint64_t>(n);
  }
}

std::vector<std::byte> read_file(const std::string& path) {
  const RandomAccessFile file(path);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes.size(), bytes.data());
  return bytes;
}

FileSum sum_of_file(const std::string& path) {
  const RandomAccessFile file(path);
  FileSum sum;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  while (sum.bytes < file.size()) {
    const std::size_t n = std::min<std::uint64_t>(piece.size(), file.size() - sum.bytes);
    file.read(sum.bytes, n, piece.data());
    sum.add(piece.data(), n);
  }
  return sum;
}

std::optional<std::string> text_of_file(const std::string& path, std::size_t most) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 1 << 14> piece;
  while (const std::size_t n = std::fread(piece.data(), 1, std::min(piece.size(), most - text.size()), file.get()))
    text.append(piece.data(), n);
  if (text.empty() && std::ferror(file.get())) return std::nullopt;  // a process that ends says no more in /proc
  return text;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  static std::atomic<unsigned> counter{0};  // two threads may write the same path: the last commit wins
  struct stat info {};
  const bool there = ::stat(path_.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) fail("written", EISDIR);
  if (there && (!S_ISREG(info.st_mode) || names_open_file(path_))) {
    if (::access(path_.c_str(), W_OK) != 0) fail("opened", errno);
    return;  // a pipe is opened when there is something for its reader
  }
  target_ = behind_links(path_);
  temporary_ = concat(target_, ".", ::getpid(), ".", counter.fetch_add(1), kTemporary);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("created", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

/// Without waiting for somebody to read a pipe: there may be nobody.
void AtomicFile::open_in_place() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd_ < 0) fail("opened", errno);
  ::fcntl(fd_, F_SETFL, O_APPEND);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (fd_ < 0) open_in_place();
  sum_.add(data, bytes);
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, std::min(bytes, std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("written", errno);
    from += n, bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  if (temporary_.empty()) {
    if (fd_ < 0) open_in_place();
    if (::close(std::exchange(fd_, -1)) != 0) fail("written", errno);
    return;
  }
  if (::fsync(fd_) != 0) fail("written", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("written", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("put in place", errno);
  temporary_.clear();
  const int directory = ::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {  // the new name survives a power cut; where a file system cannot say so, nothing is lost
    ::fsync(directory);
    ::close(directory);
  }
}

void AtomicFile::sweep(const std::string& directory, const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string found = entry.path().filename().string();
    if (found.starts_with(name + ".") && is_mark_of_writer(std::string_view(found).substr(name.size() + 1)))
      ::unlink(entry.path().c_str());
  }
}

void AtomicFile::fail(const char* doing, int reason) const {
  const char* advice = reason == ENOSPC || reason == EDQUOT    ? "Free some space, or choose another place."
                       : reason == ENOENT || reason == ENOTDIR ? "Does the directory exist?"
                       : reason == ENXIO                       ? "Nobody reads this pipe: start its reader first."
                       : reason == EISDIR                      ? "Give the name of a file."
                                                               : "Check the path and its permissions.";
  throw DataError(concat(path_, ": could not be ", doing, ": ", std::strerror(reason), ". ", advice));
}

ScratchFolder::ScratchFolder(const std::string& who, const std::string& advice) : path_("laconic-" + who + "-XXXXXX") {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / path_).string();
  if (!error && mkdtemp(path_.data()) == nullptr) error.assign(errno, std::generic_category());
  require<DataError>(!error, who, ": no temporary folder could be made: ", error.message(), ". Set TMPDIR", advice,
                     ".");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace laconic
