#include "compress/lacc.h"

#include <cstring>

namespace laconic::compress {
namespace {

constexpr char kMagic[4] = {'L', 'A', 'C', 'C'};
constexpr std::uint8_t kVersion = 1;

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void encode_lacc(const Inceptionn& codec, Slice<const float> x, Bytes& file) {
  std::byte* const head = file.append(kLaccHeader).data();
  std::memcpy(head, kMagic, sizeof kMagic);
  put<std::uint8_t>(head + 4, kVersion);
  put<std::uint8_t>(head + 5, codec.mode() == InceptionnMode::bounded);
  put<std::int16_t>(head + 6, static_cast<std::int16_t>(codec.exponent()));
  put<std::uint64_t>(head + 8, x.size());
  codec.encode(x, {}, file);
}

LaccHeader lacc_header(Slice<const std::byte> file, const std::string& where) {
  const auto check = [&](bool ok, const auto&... what) { require<DataError>(ok, where, ": ", what...); };
  const std::byte* const head = file.data();
  check(file.size() >= kLaccHeader && std::memcmp(head, kMagic, sizeof kMagic) == 0,
        "this is no file of laconic codec: give one that codec encode has written");
  check(get<std::uint8_t>(head + 4) == kVersion, "its version is ", int{get<std::uint8_t>(head + 4)},
        ", this program reads 1: take a newer one");
  const auto mode = get<std::uint8_t>(head + 5);
  const int exponent = get<std::int16_t>(head + 6);
  const auto count = get<std::uint64_t>(head + 8);
  const std::uint64_t bytes = file.size() - kLaccHeader, groups = count / cpu::kGroup + (count % cpu::kGroup != 0);
  check(mode <= 1, "its mode is ", int{mode}, " where 0 and 1 are known: the file is damaged");
  check(exponent >= kLeastExponent && exponent <= kMostExponent, "its bound is 2^", exponent,
        ", out of all bounds: the file is damaged");
  // A group has 2 to 34 bytes.
  check(groups <= bytes / 2 && bytes <= groups * cpu::kLongestGroup, count, " values cannot lie in ", bytes,
        " bytes: the file is damaged or not whole");
  return {mode ? InceptionnMode::bounded : InceptionnMode::published, exponent, static_cast<std::size_t>(count)};
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
