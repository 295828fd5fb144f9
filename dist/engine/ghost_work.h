#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "compress/codec.h"

namespace laconic::dist {

/// What a rank does to memory, counted in elements; sums in bytes.
enum class Work : std::uint8_t {
  adding,  ///< bytes to other bytes
  encoding,
  decoding,    ///< by the plan's codec
  gathering,   ///< of a gradient, into a residual
  selecting,   ///< from a residual
  scattering,  ///< of chosen elements, which are added where they belong
  updating,    ///< by a server's optimiser
};

/// Seconds that work takes. Only work on ghosts takes any: other memory is really worked on, in no time.
struct WorkCosts {
  double per_added_byte = 0;
  double per_encoded_element = 0, per_decoded_element = 0;
  double per_gathered_element = 0, per_selected_element = 0, per_scattered_element = 0;
  double per_updated_element = 0;
  double per_message = 0;  ///< handing one over, or taking one, whatever memory it is of
  double per_byte = 0;     ///< of messages, whatever memory they are of
  /// The part of the communication thread's work, 0 to 1, that is done on the cores that compute, and so stops them for
  /// as long.
  double taken_from_computing = 0;

  /// Returns the seconds for each unit of this work.
  double of(Work work) const { return this->*all()[static_cast<std::size_t>(work)]; }
  /// Makes all work take `factor` times as long.
  void stretch(double factor) {
    for (double WorkCosts::*cost : all()) this->*cost *= factor;
  }
  /// All that are seconds, first those of Work, in its order.
  static constexpr std::array<double WorkCosts::*, 9> all() {
    return {&WorkCosts::per_added_byte,       &WorkCosts::per_encoded_element,  &WorkCosts::per_decoded_element,
            &WorkCosts::per_gathered_element, &WorkCosts::per_selected_element, &WorkCosts::per_scattered_element,
            &WorkCosts::per_updated_element,  &WorkCosts::per_message,          &WorkCosts::per_byte};
  }
};

/// How long the payloads of ghosts are, and where their codec runs.
struct GhostPayloads {
  std::optional<double> bits_per_value{};  ///< nothing: as long as the codec expects
  /// It runs in network cards (compress/inceptionn/nic.h) on a link of this many bytes a second, and takes no time of a
  /// core. A payload counts as the bytes that would keep the link busy for as long. Nothing: it runs on cores.
  std::optional<double> card_bytes_per_second{};

  double bytes(const compress::Codec& codec, std::size_t elements) const;
};

/// Hears what strategies and collectives would do to memory that is not there (Device::Kind::ghost), so that it can
/// take virtual time.
class GhostWork {
 public:
  virtual void did(Work work, std::size_t amount) = 0;
  virtual GhostPayloads payloads() const { return {}; }

  /// Tells the one that this thread works for, if there is one.
  static void tell(Work work, std::size_t amount) {
    if (current != nullptr) current->did(work, amount);
  }
  /// Tells it where the memory is a ghost's.
  static void tell(Device device, Work work, std::size_t amount) {
    if (device == kGhost) [[unlikely]]
      tell(work, amount);
  }
  static thread_local GhostWork* current;

 protected:
  ~GhostWork() = default;
};

/// A codec for ghosts: payloads have the length that GhostWork::payloads() says, and no contents.
class GhostCodec final : public compress::Codec {
 public:
  /// `real` must outlive this.
  explicit GhostCodec(const compress::Codec& real) : real_(real) {}
  std::size_t max_bytes(std::size_t elements) const override;
  double expected_bytes(std::size_t elements) const override { return payloads().bytes(real_, elements); }
  void encode(Slice<const float> x, const compress::Key&, compress::Bytes& payload) const override;
  void encode_and_decode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload,
                         Slice<float>) const override;
  void encode_with_feedback(Slice<float> x, Slice<float> lost, const compress::Key& key, compress::Bytes& payload,
                            bool settle) const override;
  void decode(Slice<const std::byte>, Slice<float> x) const override;
  void decode_add(Slice<const std::byte> payload, Slice<float> x) const override;
  void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const compress::Key& key,
                         compress::Bytes& sum) const override;

 private:
  static GhostPayloads payloads() {
    return GhostWork::current != nullptr ? GhostWork::current->payloads() : GhostPayloads{};
  }
  static bool in_card() { return payloads().card_bytes_per_second.has_value(); }
  static void tell_decoding(std::size_t elements);
  const compress::Codec& real_;
};

/// Returns the codec, or, for a ghost's memory, its stand-in, which lives in `place`. Null stays null.
inline const compress::Codec* codec_for(Device device, const compress::Codec* codec, std::optional<GhostCodec>& place) {
  return codec != nullptr && device == kGhost ? &place.emplace(*codec) : codec;
}

}  // namespace laconic::dist
