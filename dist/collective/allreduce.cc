#include "dist/collective/allreduce.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/tensor.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/collective/tree_allreduce.h"
#include "dist/engine/virtual_time.h"

namespace laconic::dist {
namespace {

using Numbers = AllreduceNumbers;
using Codec = compress::Codec;

bool is_power_of_two(int N) { return std::has_single_bit(static_cast<unsigned>(N)); }

AllreduceKind by_leaders(const char* name, const char* summary, int least_group, LeadersBy by) {
  return {.name = name,
          .summary = summary,
          .least_group = least_group,
          .run = [by](Communicator& comm, Slice<float> x, Numbers n,
                      const Hops& hops) { return hierarchical_allreduce(comm, x, n.group, hops, by); },
          .cost = [by](int N, double bytes, Numbers n,
                       const Codec* codec) { return hierarchical_allreduce_cost(N, bytes, n.group, codec, by); }};
}

}  // namespace

std::vector<AllreduceKind>& allreduces() {
  static std::vector<AllreduceKind> all{
      {.name = "ring",
       .summary = "blocks round a ring: the fewest bytes",
       .alike = [](int) { return true; },
       .run = [](Communicator& comm, Slice<float> x, Numbers n,
                 const Hops& hops) { return ring_allreduce(comm, x, n.pieces, hops); },
       .cost = [](int N, double bytes, Numbers n,
                  const Codec* codec) { return ring_allreduce_cost(N, bytes, n.pieces, codec); }},
      {.name = "butterfly",
       .summary = "halves, ever nearer partners: fewer messages",
       .alike = is_power_of_two,
       .run = [](Communicator& comm, Slice<float> x, Numbers,
                 const Hops& hops) { return butterfly_allreduce(comm, x, hops); },
       .cost = [](int N, double bytes, Numbers,
                  const Codec* codec) { return butterfly_allreduce_cost(N, bytes, codec); }},
      {.name = "doubling",
       .summary = "all of it with a partner, lg N times",
       .encodes_alike = true,
       .alike = is_power_of_two,
       .run = [](Communicator& comm, Slice<float> x, Numbers,
                 const Hops& hops) { return doubling_allreduce(comm, x, hops); },
       .cost = [](int N, double bytes, Numbers,
                  const Codec* codec) { return doubling_allreduce_cost(N, bytes, codec); }},
      by_leaders("hierarchical", "rings in groups of G, and between them", 1, LeadersBy::ring),
      by_leaders("ring-tree", "rings in groups of G, aggregators above", 2, LeadersBy::tree),
      {.name = "tree",
       .summary = "aggregators only, of G each",
       .least_group = 2,
       .run = [](Communicator& comm, Slice<float> x, Numbers n,
                 const Hops& hops) { return tree_allreduce(comm, x, n.group, hops); },
       .cost = [](int N, double bytes, Numbers n,
                  const Codec* codec) { return tree_allreduce_cost(N, bytes, n.group, codec); }},
      // With a codec it carries the messages of a ring.
      {.name = "nccl",
       .summary = "NCCL's own, a GPU each",
       .carrier = Carrier::nccl,
       .cost = [](int N, double bytes, Numbers, const Codec* codec) -> std::optional<Cost> {
         if (codec == nullptr) return std::nullopt;
         return ring_allreduce_cost(N, bytes, 1, codec);
       }}};
  return all;
}

std::optional<Allreduce> find_allreduce(const std::string& text) {
  const auto colon = text.find(':');
  for (const AllreduceKind& kind : allreduces()) {
    if (kind.name != text.substr(0, colon)) continue;
    if (kind.least_group == 0) return colon == std::string::npos ? std::optional(Allreduce{kind}) : std::nullopt;
    const auto group = colon == std::string::npos ? std::nullopt : number_from<int>(text.substr(colon + 1));
    return group && *group >= kind.least_group ? std::optional(Allreduce{kind, *group}) : std::nullopt;
  }
  return std::nullopt;
}

Allreduce allreduce_named(const std::string& text) {
  const auto found = find_allreduce(text);
  require<Error>(found.has_value(), "there is no allreduce '", text, "'.");
  return *found;
}

std::optional<Cost> allreduce_cost(const std::string& allreduce, int N, double bytes, int pieces,
                                   const compress::Codec* codec) {
  const auto [kind, group] = allreduce_named(allreduce);
  return kind.cost ? kind.cost(N, bytes, {.group = group, .pieces = pieces}, codec) : std::nullopt;
}

std::size_t allreduce_room(const std::string& allreduce, int N, std::size_t elements, int pieces,
                           const compress::Codec* codec, bool keeps_losses) {
  constexpr int kMostRanks = 32;  // where they are not alike, more of them do not take more each
  const auto [kind, group] = allreduce_named(allreduce);
  if (N == 1 || !kind.run || elements == 0) return 0;
  if (!kind.cost) return elements * sizeof(float);  // it may not run on ghosts
  const bool alike = kind.alike != nullptr && kind.alike(N);
  const Tensor x = Tensor::empty({static_cast<std::int64_t>(elements)}, DType::f32, kGhost);
  const Tensor lost = keeps_losses ? Tensor::empty(x.shape(), DType::f32, kGhost) : Tensor();
  const Hops hops{.codec = codec, .lost = keeps_losses ? lost.slice() : Slice<float>(), .of = x.data<float>()};
  const AllreduceNumbers numbers{.group = group, .pieces = pieces};
  std::uint64_t most = 0;
  run_in_virtual_time(
      {.ranks = alike ? N : std::min(N, std::max(kMostRanks, group)), .mirrored = alike}, [&](VirtualEngine& engine) {
        engine.run("room", [&](Communicator& comm) { return kind.run(comm, x.slice(), numbers, hops); });
        most = std::max(most, engine.counters().peak_buffer_bytes);
      });
  return static_cast<std::size_t>(most);
}

}  // namespace laconic::dist
