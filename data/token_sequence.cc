#include "data/token_sequence.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "data/input_file.h"

namespace laconic {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
std::int64_t number_at(const std::byte* first, std::size_t place) {
  T number;
  std::memcpy(&number, first + place * sizeof number, sizeof number);
  return static_cast<std::int64_t>(number);
}

}  // namespace

/// A file in memory, from its first byte on.
class TokenSequence::Mapping {
 public:
  Mapping(const std::string& path, std::uint64_t bytes)
      : path_(path), bytes_(bytes), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    require<DataError>(file_ >= 0, path, " cannot be opened: ", std::strerror(errno),
                       ". Check the path and its permissions.");
    const bool is_whole = whole();
    if (is_whole) memory_ = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
    const int error = errno;
    if (memory_ == MAP_FAILED) ::close(file_);
    require_whole(is_whole);
    require<DataError>(memory_ != MAP_FAILED, path, " cannot be mapped into memory: ", std::strerror(error),
                       ". Copy it to a disk of this machine.");
  }
  ~Mapping() {
    ::munmap(memory_, bytes_);
    ::close(file_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const std::byte* data() const { return static_cast<const std::byte*>(memory_); }
  /// Memory behind the end of a file cannot be read.
  void check() const { require_whole(whole()); }

 private:
  bool whole() const {
    struct stat status {};
    return ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode) &&
           static_cast<std::uint64_t>(status.st_size) >= bytes_;
  }
  void require_whole(bool is_whole) const {
    require<DataError>(is_whole, path_, " is no file of ", grouped(bytes_),
                       " bytes any more. Is something else writing it?");
  }

  std::string path_;
  std::uint64_t bytes_;
  int file_;
  void* memory_ = MAP_FAILED;
};

TokenSequence::TokenSequence(std::vector<std::int32_t> numbers) : size_(numbers.size()) {
  const auto memory = std::make_shared<const std::vector<std::int32_t>>(std::move(numbers));
  first_ = reinterpret_cast<const std::byte*>(memory->data());
  memory_ = memory;
}

TokenSequence TokenSequence::map(const std::string& path, std::uint64_t offset, std::uint64_t size, Type type,
                                 std::int64_t limit) {
  TokenSequence s;
  s.path_ = path, s.size_ = size, s.type_ = type, s.limit_ = limit;
  if (size == 0) return s;
  const auto mapping = std::make_shared<const Mapping>(path, offset + size * bytes_of(type));
  s.first_ = mapping->data() + offset;
  s.mapping_ = mapping;
  return s;
}

template <class F>
auto TokenSequence::with_type(F&& f) const {
  switch (type_) {
    case Type::u8:
      return f.template operator()<std::uint8_t>();
    case Type::u16:
      return f.template operator()<std::uint16_t>();
    case Type::u32:
      return f.template operator()<std::uint32_t>();
    case Type::i8:
      return f.template operator()<std::int8_t>();
    case Type::i16:
      return f.template operator()<std::int16_t>();
    case Type::i32:
      return f.template operator()<std::int32_t>();
    case Type::i64:
      break;
  }
  return f.template operator()<std::int64_t>();
}

std::size_t TokenSequence::bytes_of(Type type) {
  TokenSequence s;
  s.type_ = type;
  return s.with_type([]<class T>() { return sizeof(T); });
}

std::int32_t TokenSequence::operator[](std::size_t place) const {
  std::int64_t number = 0;
  read(place, 1, &number);
  return static_cast<std::int32_t>(number);
}

void TokenSequence::read(std::size_t begin, std::size_t count, std::int64_t* to) const {
  if (is_mapped() && count > 1) mapping_->check();
  const bool good = with_type([&]<class T>() {
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = number_at<T>(first_, std::min(begin + i, size_ - 1));
      all &= to[i] >= 0 && to[i] < limit_;
    }
    return all;
  });
  if (!good && is_mapped()) refuse(begin);
}

TokenSequence TokenSequence::part(std::size_t begin, std::size_t end) const {
  TokenSequence s = *this;
  s.first_ += begin * bytes_of(type_);
  s.size_ = end - begin, s.before_ += begin;
  return s;
}

std::vector<std::int32_t> TokenSequence::numbers() const {
  std::vector<std::int32_t> all(size_);
  for (std::size_t i = 0; i < size_; ++i) all[i] = (*this)[i];
  return all;
}

std::int64_t TokenSequence::largest() const {
  if (is_mapped()) mapping_->check();
  const auto [least, most] = with_type([&]<class T>() {
    std::pair<std::int64_t, std::int64_t> ends(0, -1);
    T low = 0, high = 0;  // a loop over one type is many times as fast
    for (std::size_t i = 0; i < size_; ++i) {
      T number;
      std::memcpy(&number, first_ + i * sizeof number, sizeof number);
      low = std::min(low, number), high = std::max(high, number);
    }
    if (size_ > 0) ends = {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
    return ends;
  });
  if (is_mapped() && (least < 0 || most >= limit_)) refuse(0);
  return most;
}

void TokenSequence::add_to(Digest& digest) const {
  const std::size_t each = bytes_of(type_), bytes = size_ * each;
  if (!is_mapped()) return digest.add(first_, bytes);
  mapping_->check();
  constexpr std::size_t kSamples = 256, kSample = 4096;
  digest.add(&size_, sizeof size_);
  if (bytes <= kSamples * kSample) return digest.add(first_, bytes);
  for (std::size_t i = 0; i < kSamples; ++i) digest.add(first_ + (bytes - kSample) * i / (kSamples - 1), kSample);
}

void TokenSequence::refuse(std::size_t begin) const {
  constexpr std::size_t kLooked = std::size_t{1} << 24;
  const std::byte* const first = first_ - before_ * bytes_of(type_);
  const std::size_t end = before_ + size_;
  with_type([&]<class T>() {
    for (std::size_t i = 0; i < end; i = i + 1 == kLooked ? std::max(kLooked, before_ + begin) : i + 1) {
      const std::int64_t number = number_at<T>(first, i);
      require<DataError>(number >= 0 && number < limit_, path_, ": token ", grouped(i), " (from 0) is ", number,
                         ", and the vocabulary has the numbers from 0 to ",
                         grouped(static_cast<std::uint64_t>(limit_ - 1)),
                         ". Give the tokens that it was made with, or as many, as numbers:50257 (`tokens`).");
    }
  });
  throw DataError(path_ + " was changed while it was read. Start again.");
}

}  // namespace laconic
