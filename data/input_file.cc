#include "data/input_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/random.h"

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

void drop_byte_order_mark(std::string& text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
}

std::string read_text(const std::string& path, std::uint64_t most) {
  InputFile file(path);
  std::string text;
  for (std::vector<std::uint8_t> piece(1); !piece.empty(); text.append(piece.begin(), piece.end()))
    piece = file.read(std::min<std::uint64_t>(1 << 20, most - text.size()));
  drop_byte_order_mark(text);
  return text;
}

bool is_archive(const std::string& path) {
  fs::path name = fs::path(path).filename();
  for (const char* packed : {".gz", ".xz", ".bz2", ".zst"})
    if (name.extension() == packed && name.stem().extension() == ".tar") name = name.stem();
  for (const char* ending : {".tar", ".tgz", ".zip"})
    if (name.extension() == ending) return true;
  constexpr std::size_t kTarMagic = 257;
  const std::vector<std::uint8_t> bytes = InputFile(path).read(512);
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return head.starts_with("PK\3\4") || (head.size() == 512 && head.substr(kTarMagic).starts_with("ustar"));
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
  std::string other;  // a folder, or a link to nothing: its reader says so
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

void Digest::add(const void* data, std::size_t bytes) {
  // Two 32-bit checks of each piece, folded so that their order counts.
  const auto* p = static_cast<const Bytef*>(data);
  const auto crc = static_cast<std::uint32_t>(crc32_z(0, p, bytes));
  const auto adler = static_cast<std::uint32_t>(adler32_z(1, p, bytes));
  const auto mixed = philox({crc, adler, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes >> 32)},
                            {static_cast<std::uint32_t>(value_), static_cast<std::uint32_t>(value_ >> 32)});
  value_ = std::uint64_t{mixed[0]} << 32 | mixed[1];
}

}  // namespace laconic
