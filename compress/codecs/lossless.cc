#include "compress/codecs.h"
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

constexpr std::size_t kMostElements = std::size_t{1} << 28;  // LZ4 counts bytes in 31 bits

/// A library for general data.
struct Library {
  const char* name;
  /// Returns the most bytes that come of `bytes`, as the library promises.
  std::size_t (*room)(std::size_t bytes);
  /// Returns how many bytes of `out` were written. Null if this build has not the library.
  std::size_t (*encode)(const char* in, std::size_t bytes, char* out, std::size_t room) = nullptr;
  /// Whether `in` was all of `out`, and nothing else. Both libraries check every length.
  bool (*decode)(const char* in, std::size_t bytes, char* out, std::size_t size) = nullptr;
};

constexpr Library kSnappy{"snappy", [](std::size_t bytes) { return bytes + bytes / 6 + 32; },
#ifdef LACONIC_SNAPPY
                          [](const char* in, std::size_t bytes, char* out, std::size_t room) {
                            snappy_compress(in, bytes, out, &room);
                            return room;
                          },
                          [](const char* in, std::size_t bytes, char* out, std::size_t size) {
                            std::size_t found = 0;
                            if (snappy_uncompressed_length(in, bytes, &found) != SNAPPY_OK || found != size)
                              return false;
                            return snappy_uncompress(in, bytes, out, &found) == SNAPPY_OK && found == size;
                          }
#endif
};

constexpr Library kLz4{
    "lz4", [](std::size_t bytes) { return bytes + bytes / 255 + 16; },
#ifdef LACONIC_LZ4
    [](const char* in, std::size_t bytes, char* out, std::size_t room) {
      return static_cast<std::size_t>(LZ4_compress_default(in, out, static_cast<int>(bytes), static_cast<int>(room)));
    },
    [](const char* in, std::size_t bytes, char* out, std::size_t size) {
      const auto whole = static_cast<int>(size);
      return bytes <= static_cast<std::size_t>(LZ4_compressBound(whole)) &&
             LZ4_decompress_safe(in, out, static_cast<int>(bytes), whole) == whole;
    }
#endif
};

/// General compressors over the floats' bytes, which they give back bit by bit: for contrast, since gradients hardly
/// shrink by them.
///     snappy   what INCEPTIONN measures beside its own (Fig. 7)
///     lz4      the fastest of its kind
/// The payload is the library's block format. What lies on a CUDA device goes through host memory, and waits for it.
/// Which of them a build has is decided at configure time.
class Lossless final : public Codec {
 public:
  /// throws UsageError if this build has not that library
  explicit Lossless(const Library& library) : library_(library) {
    require<UsageError>(library.encode != nullptr, "this build has no ", library.name, " (`codec`): install lib",
                        library.name, "-dev, then configure and build again");
  }
  static CodecKind kind(const Library& library) {
    return plain_codec(library.name, {.loses = false}, [&library] { return std::make_unique<Lossless>(library); });
  }
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(4 * elements); }

  /// throws ShapeError beyond 2^28 values
  std::size_t max_bytes(std::size_t elements) const override {
    require<ShapeError>(elements <= kMostElements, library_.name, " codec: ", elements,
                        " values are too many at once. Send them in pieces.");
    return library_.room(elements * sizeof(float));
  }

  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override {
    if (x.empty()) return;
    const auto on_host = [&] {
      const std::size_t before = payload.size(), room = max_bytes(x.size());
      std::byte* const to = payload.append(room).data();
      payload.resize(before + library_.encode(reinterpret_cast<const char*>(x.data()), x.size_bytes(),
                                              reinterpret_cast<char*>(to), room));
    };
    on_device(x.device(), on_host, [&] {
      const HostCopy<float> here(x);
      Bytes made;
      encode(here.slice(), key, made);
      copy_bytes(payload.append(made.size()).data(), x.device(), made.data(), kCpu, made.size());
    });
  }

  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    const auto decoded = [&](const std::byte* from, float* to) {
      return library_.decode(reinterpret_cast<const char*>(from), payload.size(), reinterpret_cast<char*>(to),
                             x.size_bytes());
    };
    const auto through_host = [&] {
      const HostCopy<std::byte> here(payload);
      std::vector<float> values(x.size());
      if (!decoded(here.data(), values.data())) return false;
      copy_bytes(x.data(), x.device(), values.data(), kCpu, x.size_bytes());
      return true;
    };
    const bool right = x.size() <= kMostElements &&
                       (x.empty() ? payload.empty()
                                  : on_device(
                                        x.device(), [&] { return decoded(payload.data(), x.data()); }, through_host));
    require<DataError>(right, library_.name, " codec: ", payload.size(), " bytes are no ", x.size(),
                       " values. Do all ranks use the same codec?");
  }

 private:
  const Library& library_;
};

}  // namespace

CodecKind snappy_codec() { return Lossless::kind(kSnappy); }
CodecKind lz4_codec() { return Lossless::kind(kLz4); }

}  // namespace laconic::compress
