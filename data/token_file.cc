#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "data/input_file.h"
#include "data/npy.h"
#include "data/utf8.h"

namespace laconic {
namespace {

using Type = TokenSequence::Type;

constexpr std::uint64_t kSampleBytes = 1 << 16;                 // bytes; divisible by 4
constexpr std::int64_t kMostOf16 = 65536;                       // tokens that 16 bits can number
constexpr std::int32_t kLlmC16 = 20240520, kLlmC32 = 20240801;  // what token files of llm.c begin with
// Its model, test, tokenizer, evaluation, state of a training, model of Llama 3.
constexpr std::int32_t kOthersOfLlmC[] = {20240326, 20240327, 20240328, 20240522, 20240527, 20240803};

std::string bytes_from(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t most) {
  std::string bytes(std::min(most, file.size() - std::min(offset, file.size())), '\0');
  file.read(offset, bytes.size(), bytes.data());
  return bytes;
}

/// Whether a file's first bytes are UTF-8 without a byte 0, but for a character that is cut at their end.
bool is_text(const std::string& start) {
  for (std::size_t i = 0; i < start.size();) {
    const std::size_t bytes = utf8_bytes(start, i);
    if (start[i] == '\0' || (bytes == 0 && i + 3 < start.size())) return false;
    i += std::max<std::size_t>(bytes, 1);
  }
  return true;
}

/// Of numbers alone, what they are made of.
Type bare_type(const RandomAccessFile& file, std::int64_t vocabulary) {
  if (vocabulary > kMostOf16) return Type::u32;
  std::array<std::uint16_t, 2> largest{};  // halves, lower and upper if two are one number
  for (const std::uint64_t sample :
       {std::uint64_t{0}, file.size() / 2, file.size() - std::min(file.size(), kSampleBytes)}) {
    const std::string bytes = bytes_from(file, sample / 4 * 4, kSampleBytes);
    for (std::size_t i = 0; i + 2 <= bytes.size(); i += 2) {
      std::uint16_t half;
      std::memcpy(&half, bytes.data() + i, sizeof half);
      largest[i / 2 % 2] = std::max(largest[i / 2 % 2], half);
    }
  }
  if (file.size() % 4 != 0 || largest[0] == 0) return Type::u16;
  if (largest[1] == 0) return Type::u32;
  const bool may_be_u32 = largest[1] <= (kMostTokens >> 16) && largest[0] > (kMostTokens >> 16);
  require<DataError>(!may_be_u32 || vocabulary > 0, file.path(),
                     " may hold numbers of 16 bits or, of more than 65,536 tokens, of 32. Say how many tokens there "
                     "are, as numbers:50257 (`tokens`).");
  return Type::u16;
}

TokenSequence of_llm_c(const RandomAccessFile& file, const std::array<std::int32_t, 3>& head, std::int64_t limit) {
  constexpr std::uint64_t kHeader = 256 * 4;
  const bool small = head[0] == kLlmC16;
  const int version = small ? 1 : 7;
  const Type type = small ? Type::u16 : Type::u32;
  require<DataError>(head[1] == version, file.path(), " is a token file of llm.c of version ", head[1], ", and ",
                     version, " is read. Write it with llm.c's data_common.py.");
  const auto count = static_cast<std::uint32_t>(head[2]);
  const std::uint64_t bytes = kHeader + count * std::uint64_t{TokenSequence::bytes_of(type)};
  require<DataError>(file.size() == bytes, file.path(), " has ", grouped(file.size()), " bytes, and ", grouped(count),
                     " tokens as llm.c writes them have ", grouped(bytes), ". Fetch or write it again.");
  return TokenSequence::map(file.path(), kHeader, count, type, limit);
}

TokenSequence of_npy(const RandomAccessFile& file, std::int64_t limit) {
  constexpr std::pair<const char*, Type> kTypes[] = {{"|u1", Type::u8}, {"<u2", Type::u16}, {"<u4", Type::u32},
                                                     {"|i1", Type::i8}, {"<i2", Type::i16}, {"<i4", Type::i32},
                                                     {"<i8", Type::i64}};
  const NpyHeader header = read_npy_header(file, file.path());
  const auto* const known = std::ranges::find_if(kTypes, [&](const auto& type) { return header.dtype == type.first; });
  require<DataError>(known != std::end(kTypes), file.path(), " holds ", header.dtype,
                     ", not tokens of u2, u4, i4 or i8, little-endian. Save x.astype('<u4').");
  require<DataError>(header.shape.size() == 1, file.path(), " has ", header.shape.size(),
                     " dimensions, and tokens stand in a row. Save x.reshape(-1).");
  return TokenSequence::map(file.path(), header.data_offset, static_cast<std::uint64_t>(header.elements()),
                            known->second, limit);
}

}  // namespace

bool is_token_file(const std::string& path) {
  if (path.ends_with(".npy")) return true;
  if (!path.ends_with(".bin")) return false;
  return !is_text(bytes_from(RandomAccessFile(path), 0, kSampleBytes));
}

TokenSequence map_token_file(const std::string& path, std::int64_t vocabulary) {
  const RandomAccessFile file(path);
  const std::string start = bytes_from(file, 0, kSampleBytes);
  require<DataError>(!start.empty(), path, " is empty: it has no tokens. Give a file with some.");
  require<DataError>(!start.starts_with("\x1F\x8B\x08") && !start.starts_with(std::string_view("PK\3\4", 4)), path,
                     " is compressed, and tokens are read in place. Unpack it (`data`).");
  const std::int64_t limit = vocabulary > 0 ? vocabulary : kMostTokens;
  if (start.starts_with("\x93NUMPY") || path.ends_with(".npy")) return of_npy(file, limit);
  std::array<std::int32_t, 3> head{};
  if (start.size() >= sizeof head) std::memcpy(head.data(), start.data(), sizeof head);
  require<DataError>(std::ranges::find(kOthersOfLlmC, head[0]) == std::end(kOthersOfLlmC), path,
                     " is a file of llm.c, ", head[0], ", that is no row of tokens. Give its token file (`data`).");
  if (head[0] == kLlmC16 || head[0] == kLlmC32) return of_llm_c(file, head, limit);
  require<DataError>(!is_text(start), path,
                     " is text, not numbers of tokens. Say what it is cut into: words, chars or bpe:SIZE (`tokens`).");
  const Type type = bare_type(file, vocabulary);
  const std::size_t each = TokenSequence::bytes_of(type);
  require<DataError>(file.size() % each == 0, path, " has ", grouped(file.size()),
                     " bytes, no whole number of tokens of ", each, " bytes. Is it cut, or another file?");
  return TokenSequence::map(path, 0, file.size() / each, type, limit);
}

}  // namespace laconic
