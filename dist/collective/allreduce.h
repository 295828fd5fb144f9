#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compress/codec.h"
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"

namespace laconic::dist {

/// The carrier moves an allreduce's bytes: messages of ours, or NCCL.
enum class Carrier : std::uint8_t { messages, nccl };

/// The numbers that an allreduce goes by.
struct AllreduceNumbers {
  int group = 0;   ///< G, of a kind that works in groups
  int pieces = 1;  ///< pieces of a kind that can be cut, between which others overtake; 0: pieces_of()
};

/// A way to sum over ranks, as `allreduce` and plans name it: NAME, or NAME:G.
struct AllreduceKind {
  std::string name;
  std::string summary;  ///< one line of --help
  int least_group = 0;  ///< the smallest G; 0: it takes none
  Carrier carrier = Carrier::messages;
  /// Several ranks encode the same values and must come to the same bytes: no codec that remembers what it has lost.
  bool encodes_alike = false;
  /// Whether all of N ranks send and receive equally much at the same time, so that one stands for all
  /// (VirtualNetwork::mirrored). Null: they never do.
  bool (*alike)(int N) = nullptr;
  /// Sums in place: afterwards x holds the sum over all ranks, on every rank. It is null for NCCL, which has no
  /// coroutine.
  std::function<Task<>(Communicator& comm, Slice<float> x, AllreduceNumbers numbers, const Hops& hops)> run{};
  /// Returns the cost of summing `bytes` over N ranks. It is null, or returns nothing, where there is no formula.
  std::function<std::optional<Cost>(int N, double bytes, AllreduceNumbers numbers, const compress::Codec* codec)>
      cost{};

  std::string form() const { return least_group > 0 ? name + ":G" : name; }
};

/// The table of all kinds. Add your own before training begins.
std::vector<AllreduceKind>& allreduces();

/// One of the table, with its group.
struct Allreduce {
  const AllreduceKind& kind;
  int group = 0;
};
/// Finds "ring", "hierarchical:2". Returns nothing for another text, or a G that is too small. The reference holds
/// until the table changes.
std::optional<Allreduce> find_allreduce(const std::string& text);
/// Finds it where the text is known to be right.   throws Error if there is none
Allreduce allreduce_named(const std::string& text);

/// Returns the cost of summing `bytes` over N ranks, or nothing where there is no formula.
std::optional<Cost> allreduce_cost(const std::string& allreduce, int N, double bytes, int pieces = 1,
                                   const compress::Codec* codec = nullptr);

/// Bytes of memory that one rank's allreduce of `elements` takes at once for messages that come, or pass through a
/// codec: on the rank that takes most, measured on ghosts. Where there is no formula of the cost it is an estimate, the
/// bytes of the summed floats; for NCCL it is 0.
///   keeps_losses : what encoding loses stays on the rank (Hops::lost)
std::size_t allreduce_room(const std::string& allreduce, int N, std::size_t elements, int pieces,
                           const compress::Codec* codec = nullptr, bool keeps_losses = false);

}  // namespace laconic::dist
