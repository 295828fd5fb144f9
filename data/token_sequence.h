#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace laconic {

class Digest;

/// Numbers of tokens in a row, in memory or in a file that is mapped into it. Never changed; copies share what they
/// hold, and any number of threads may read one.
class TokenSequence {
 public:
  /// How a file holds a number, little-endian.
  enum class Type { u8, u16, u32, i8, i16, i32, i64 };

  TokenSequence() : TokenSequence(std::vector<std::int32_t>()) {}
  TokenSequence(std::vector<std::int32_t> numbers);  // NOLINT: a sequence is what its numbers are
  TokenSequence(std::initializer_list<std::int32_t> numbers) : TokenSequence(std::vector<std::int32_t>(numbers)) {}

  /// Maps a part of a file into memory: nothing is read before it is asked for, and nothing copied. A file that has
  /// become shorter is refused by read(); one that does while it is read ends the program.
  ///   offset : bytes before the first number      size : numbers      limit : what all of them are below
  /// Whatever reads a number that is negative or not below `limit` throws DataError, which names the first such number
  /// and its place: of the file, if it is among its first 2^24 ones, else of what was to be read.
  /// throws DataError: the file cannot be opened or mapped, or is shorter
  static TokenSequence map(const std::string& path, std::uint64_t offset, std::uint64_t size, Type type,
                           std::int64_t limit);
  static std::size_t bytes_of(Type type);  ///< of one number

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int32_t operator[](std::size_t place) const;
  std::int32_t back() const { return (*this)[size_ - 1]; }
  /// Writes `count` numbers from `begin` on; behind the end of a sequence, which is not empty, its last one.
  void read(std::size_t begin, std::size_t count, std::int64_t* to) const;
  TokenSequence part(std::size_t begin, std::size_t end) const;  ///< shares the memory
  std::vector<std::int32_t> numbers() const;                     ///< a copy of all

  /// The largest number, -1 of none. Cost: reads all.   throws DataError: one is negative or not below the limit
  std::int64_t largest() const;
  /// Adds the numbers; of a mapped file only how many there are and 256 samples of up to 4 KiB, evenly spread, so that
  /// files that differ between these alone are not told apart.
  void add_to(Digest& digest) const;

  friend bool operator==(const TokenSequence& a, const TokenSequence& b) { return a.numbers() == b.numbers(); }

 private:
  bool is_mapped() const { return mapping_ != nullptr; }
  template <class F>
  auto with_type(F&& f) const;
  [[noreturn]] void refuse(std::size_t begin) const;

  class Mapping;
  std::shared_ptr<const Mapping> mapping_;  // null: the numbers lie in memory_
  std::shared_ptr<const std::vector<std::int32_t>> memory_;
  const std::byte* first_ = nullptr;
  std::size_t size_ = 0;
  Type type_ = Type::i32;
  std::int64_t limit_ = std::int64_t{1} << 31;
  std::string path_;        // of the file that is mapped
  std::size_t before_ = 0;  // numbers of the file before the first
};

}  // namespace laconic
