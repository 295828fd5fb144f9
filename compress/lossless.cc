#include "compress/lossless.h"

#include "core/dispatch.h"
#include "core/host_copy.h"
#include "core/stream.h"
#ifdef LACONIC_SNAPPY
#include <snappy-c.h>
#endif
#ifdef LACONIC_LZ4
#include <lz4.h>
#endif

namespace laconic::compress {
namespace {

#ifdef LACONIC_SNAPPY
constexpr bool kSnappy = true;
#else
constexpr bool kSnappy = false;
#endif
#ifdef LACONIC_LZ4
constexpr bool kLz4 = true;
#else
constexpr bool kLz4 = false;
#endif

constexpr std::size_t kMostElements = std::size_t{1} << 28;  // LZ4 counts bytes in 31 bits

std::size_t encoded([[maybe_unused]] Lossless::Library library, [[maybe_unused]] Slice<const std::byte> in,
                    [[maybe_unused]] Slice<std::byte> out) {
  [[maybe_unused]] const auto* const from = reinterpret_cast<const char*>(in.data());
  [[maybe_unused]] auto* const to = reinterpret_cast<char*>(out.data());
#ifdef LACONIC_SNAPPY
  if (library == Lossless::Library::snappy) {
    std::size_t bytes = out.size();
    snappy_compress(from, in.size(), to, &bytes);
    return bytes;
  }
#endif
#ifdef LACONIC_LZ4
  if (library == Lossless::Library::lz4)
    return static_cast<std::size_t>(
        LZ4_compress_default(from, to, static_cast<int>(in.size()), static_cast<int>(out.size())));
#endif
  return 0;
}

/// Whether `in` was all of `out`, and nothing else. Both libraries check every length.
bool decoded([[maybe_unused]] Lossless::Library library, [[maybe_unused]] Slice<const std::byte> in,
             [[maybe_unused]] Slice<std::byte> out) {
  [[maybe_unused]] const auto* const from = reinterpret_cast<const char*>(in.data());
  [[maybe_unused]] auto* const to = reinterpret_cast<char*>(out.data());
#ifdef LACONIC_SNAPPY
  if (library == Lossless::Library::snappy) {
    std::size_t bytes = 0;
    if (snappy_uncompressed_length(from, in.size(), &bytes) != SNAPPY_OK || bytes != out.size()) return false;
    return snappy_uncompress(from, in.size(), to, &bytes) == SNAPPY_OK && bytes == out.size();
  }
#endif
#ifdef LACONIC_LZ4
  if (library == Lossless::Library::lz4)
    return in.size() <= static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(out.size()))) &&
           LZ4_decompress_safe(from, to, static_cast<int>(in.size()), static_cast<int>(out.size())) ==
               static_cast<int>(out.size());
#endif
  return false;
}

const char* name_of(Lossless::Library library) { return library == Lossless::Library::snappy ? "snappy" : "lz4"; }

}  // namespace

CodecKind Lossless::kind(Library library) {
  return plain_codec(library == Library::snappy ? "snappy" : "lz4", {.loses = false},
                     [library] { return std::make_unique<Lossless>(library); });
}

Lossless::Lossless(Library library) : library_(library) {
  require<UsageError>(library == Library::snappy ? kSnappy : kLz4, "this build has no ", name_of(library),
                      " (`codec`): install lib", name_of(library), "-dev, then configure and build again");
}

std::size_t Lossless::max_bytes(std::size_t elements) const {
  require<ShapeError>(elements <= kMostElements, name_of(library_), " codec: ", elements,
                      " values are too many at once. Send them in pieces.");
  const std::size_t bytes = elements * sizeof(float);
  return bytes + (library_ == Library::snappy ? bytes / 6 + 32 : bytes / 255 + 16);  // as both libraries promise
}

void Lossless::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  const std::size_t before = payload.size();
  const Slice<std::byte> out = payload.append(max_bytes(x.size()));
  const auto through_host = [&] {
    const HostCopy<std::byte> host(x.bytes());
    std::vector<std::byte> made(out.size());
    const std::size_t bytes = encoded(library_, host.slice(), slice(made));
    copy_bytes(out.data(), x.device(), made.data(), kCpu, bytes);
    return bytes;
  };
  const std::size_t bytes = x.empty()
                                ? 0
                                : on_device(
                                      x.device(), [&] { return encoded(library_, x.bytes(), out); }, through_host);
  payload.resize(before + bytes);
}

void Lossless::decode(Slice<const std::byte> payload, Slice<float> x) const {
  const auto through_host = [&] {
    const HostCopy<std::byte> host(payload);
    std::vector<std::byte> values(x.size_bytes());
    if (!decoded(library_, host.slice(), slice(values))) return false;
    copy_bytes(x.data(), x.device(), values.data(), kCpu, values.size());
    return true;
  };
  const bool right = x.size() <= kMostElements &&
                     (x.empty() ? payload.empty()
                                : on_device(
                                      x.device(), [&] { return decoded(library_, payload, x.bytes()); }, through_host));
  require<DataError>(right, name_of(library_), " codec: ", payload.size(), " bytes are no ", x.size(),
                     " values. Do all ranks use the same codec?");
}

}  // namespace laconic::compress
