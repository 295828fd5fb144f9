#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"

namespace laconic {
namespace fs = std::filesystem;

InputFile::InputFile(const std::string& path) : path_(path), file_(nullptr) {
  std::error_code ignored;
  require<DataError>(!fs::is_directory(path, ignored), path, " is a folder, a file is expected. Correct the path.");
  errno = 0;
  file_ = gzopen(path.c_str(), "rb");
  require<DataError>(file_ != nullptr, path, " cannot be opened: ", std::strerror(errno ? errno : ENOMEM),
                     ". Check the path and its permissions.");
  gzbuffer(file_, 1 << 18);
}

InputFile::~InputFile() {
  if (file_) gzclose(file_);
}

std::vector<std::uint8_t> InputFile::read(std::uint64_t count) {
  constexpr std::uint64_t kFirstChunk = 1 << 16, kLargestChunk = 1 << 28;  // gzread counts in unsigned int
  std::vector<std::uint8_t> bytes;
  std::uint64_t chunk = kFirstChunk;
  while (bytes.size() < count) {
    const std::size_t have = bytes.size();
    const std::uint64_t want = std::min(count - have, chunk);
    if (bytes.capacity() < have + want) bytes.reserve(std::min<std::uint64_t>(count, 2 * (have + want)));
    bytes.resize(have + want);
    const int got = gzread(file_, bytes.data() + have, static_cast<unsigned>(want));
    int code = Z_OK;
    const std::string what = gzerror(file_, &code);
    cut_ |= code == Z_BUF_ERROR;  // zlib from 1.3.2 on says so once, when it meets the end, and may have more to give
    if (got < static_cast<int>(want)) {
      require<DataError>(!cut_, path_, " ends in the middle of its gzip stream, after ",
                         grouped(bytes_read_ + static_cast<std::uint64_t>(std::max(got, 0))),
                         " unpacked bytes. The download was cut; fetch it again.");
      require<DataError>(code == Z_OK && got >= 0, path_, " cannot be read after ",
                         grouped(bytes_read_ + static_cast<std::uint64_t>(std::max(got, 0))),
                         " unpacked bytes: ", code == Z_ERRNO ? std::strerror(errno) : what,
                         ". The file is damaged; fetch it again.");
    }
    bytes.resize(have + static_cast<std::size_t>(got));
    bytes_read_ += static_cast<std::uint64_t>(got);
    if (got < static_cast<int>(want)) break;
    chunk = std::min(2 * chunk, kLargestChunk);
  }
  return bytes;
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

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string find_file(const std::vector<std::string>& folders, const std::vector<std::string>& names) {
  std::string other;  // a folder, or a link to nothing: whoever opens it says so
  for (const std::string& folder : folders)
    for (const std::string& name : names)
      for (const char* suffix : {"", ".gz"}) {
        const fs::path path = fs::path(folder) / (name + suffix);
        std::error_code ignored;
        if (fs::is_regular_file(path, ignored)) return path.string();
        if (other.empty() && &name == &names.front() && fs::exists(fs::symlink_status(path, ignored)))
          other = path.string();
      }
  return other;
}

}  // namespace laconic
