#include "compress/inceptionn/lacc.h"

#include <cstring>

namespace laconic::compress {
namespace {

constexpr std::uint8_t kVersion = 1;

struct Head {
  char magic[4];
  std::uint8_t version, mode;
  std::int16_t exponent;
  std::uint64_t count;
};
static_assert(sizeof(Head) == kLaccHeader);

}  // namespace

void encode_lacc(const Inceptionn& codec, Slice<const float> x, Bytes& file) {
  const Head head{.magic = {'L', 'A', 'C', 'C'},
                  .version = kVersion,
                  .mode = codec.mode() == InceptionnMode::bounded,
                  .exponent = static_cast<std::int16_t>(codec.exponent()),
                  .count = x.size()};
  std::memcpy(file.append(kLaccHeader).data(), &head, kLaccHeader);
  codec.encode(x, {}, file);
}

LaccHeader lacc_header(Slice<const std::byte> file, const std::string& where) {
  const auto check = [&](bool ok, const auto&... what) { require<DataError>(ok, where, ": ", what...); };
  Head head{};
  if (file.size() >= kLaccHeader) std::memcpy(&head, file.data(), kLaccHeader);
  check(std::memcmp(head.magic, "LACC", sizeof head.magic) == 0,
        "this is no file of laconic codec: give one that codec encode has written");
  check(head.version == kVersion, "its version is ", int{head.version}, ", this program reads 1: take a newer one");
  const std::uint64_t bytes = file.size() - kLaccHeader,
                      groups = head.count / cpu::kGroup + (head.count % cpu::kGroup != 0);
  check(head.mode <= 1, "its mode is ", int{head.mode}, " where 0 and 1 are known: the file is damaged");
  check(head.exponent >= kLeastExponent && head.exponent <= kMostExponent, "its bound is 2^", head.exponent,
        ", out of all bounds: the file is damaged");
  // A group has 2 to 34 bytes.
  check(groups <= bytes / 2 && bytes <= groups * cpu::kLongestGroup, head.count, " values cannot lie in ", bytes,
        " bytes: the file is damaged or not whole");
  return {head.mode ? InceptionnMode::bounded : InceptionnMode::published, head.exponent,
          static_cast<std::size_t>(head.count)};
}

void decode_lacc(Slice<const std::byte> file, Slice<float> x, const std::string& where) {
  const LaccHeader header = lacc_header(file, where);
  require<ShapeError>(x.size() == header.count, where, " has ", header.count, " values, room is for ", x.size());
  try {
    Inceptionn(header.mode, header.exponent).decode(file.sub(kLaccHeader, file.size() - kLaccHeader), x);
  } catch (const DataError& e) {
    throw DataError(concat(where, ": ", e.what()));
  }
}

}  // namespace laconic::compress
