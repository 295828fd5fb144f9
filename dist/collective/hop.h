#pragma once
#include <cstddef>
#include <optional>

#include "compress/codec.h"
#include "dist/engine/communicator.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {

/// How blocks of floats travel from rank to rank inside a collective: as they are, or through a codec. A collective of
/// collectives gives each a key that begins at other hops or ranks, so that no two messages have the same.
struct Hops {
  const compress::Codec* codec = nullptr;  ///< null: plain floats. Outlives the operation
  compress::Key key{};                     ///< seed, step, operation; the collective adds its hop and rank
  /// Error feedback: what this rank's encoding has lost of each element so far, and where the vector lies that is being
  /// summed, element by element beside it. Added before the element is encoded again, in this operation or the next, so
  /// that nothing is lost for good. Empty: none. Outlives the operation.
  Slice<float> lost{};
  const float* of = nullptr;
};

/// Expected bytes on the wire of `bytes` of plain floats that travel as `blocks` nearly equal blocks.
double wire_bytes(const compress::Codec* codec, double bytes, int blocks);

/// One rank's way of passing blocks on, the same calls whether there is a codec or not. Send first what was loaded:
///
///     hop.load(x, 3, r);                      encode x (plain: remember where it lies)
///                                             (load_settled: and x becomes what the others will read)
///     co_await hop.swap(right, left, y);      send it, and y becomes what came
///     hop.forward(y);                         next time send what came, the same bytes: never encoded twice
///
/// Throws CommError if what comes is no payload of that many elements, and OutOfRange where the codec cannot send a
/// value.
class Hop {
 public:
  /// `most_elements`: of the longest block. Without a codec it takes no memory.
  Hop(Endpoint& comm, const Hops& hops, std::size_t most_elements, Device device);
  ~Hop();
  Hop(const Hop&) = delete;
  Hop& operator=(const Hop&) = delete;

  /// x, and what was lost of it before, is what goes out next. With feedback x is undefined afterwards.
  ///   rank : goes into the key
  void load(Slice<float> x, int hop, int rank) { encode(x, hop, rank, false, false); }
  /// Loads x, and x becomes what its receivers decode.
  ///   alike : the key names a rank whose bytes others must come to. What was lost is left out then,
  ///           because each has lost something else
  void load_settled(Slice<float> x, int hop, int rank, bool alike = false) { encode(x, hop, rank, alike, true); }
  /// What was loaded goes to one rank while `x` comes from another.
  Task<> swap(int to, int from, Slice<float> x);
  /// Swaps, but adds what comes to x. With a codec only.
  Task<> swap_add(int to, int from, Slice<float> x);
  /// swap_add, and load of the sum: in one pass where the codec can. x is undefined until it is written again. With a
  /// codec only.
  Task<> swap_add_load(int to, int from, Slice<float> x, int hop, int rank);
  Task<> send(int to);
  Task<> recv(int from, Slice<float> x);
  /// What comes is added to x. Without a codec it comes into `inbox`, which has room for x.
  Task<> recv_add(int from, Slice<float> x, Slice<float> inbox);
  /// The bytes that came last, which were decoded to x, go out next.
  void forward(Slice<float> x);

  /// What was loaded, as it travels, until the next load or forward. With a codec only.
  Slice<const std::byte> payload() const { return out_.slice(); }
  void keep(compress::Bytes& copy) const;  ///< what payload() is, in memory of its own
  /// x becomes what a payload says that came from a rank in a message of another form. With a codec only.
  void read(Slice<const std::byte> payload, int from, Slice<float> x);

 private:
  void encode(Slice<float> x, int hop, int rank, bool alike, bool settle);
  void decode(int from, Slice<float> x, bool add) const;
  Task<> take(int from);
  /// What was loaded goes while a payload comes, which read() then finds in in_.
  template <class F>
  Task<> swap_payloads(int to, int from, F read);
  compress::Key key_of(int hop, int rank) const;
  Slice<float> lost_of(Slice<float> x) const;

  Endpoint& comm_;
  std::optional<GhostCodec> ghosts_;
  Hops hops_;
  Slice<float> plain_;        // what goes out next, without a codec
  compress::Bytes out_, in_, next_;  // payloads, with a codec
  std::size_t room_ = 0;
};

}  // namespace laconic::dist
