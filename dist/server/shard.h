#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/parameter.h"
#include "dist/plan/plan.h"

namespace laconic::dist {

/// Which of K servers each bucket of a plan belongs to: the largest first, each to the server that has the fewest bytes
/// so far (of equal ones the first). A function of the plan alone, equal on all ranks; it changes no bit.
std::vector<int> servers_of(const Plan& plan, int servers);

/// One server's share of a model: the parameters of its buckets, or the rows of them that a bucket holds, in an arena
/// of their own: values, the sum of what workers send (in the place of gradients), and room for an optimiser's state.
/// Knows no layer and no data. Within a bucket everything lies as in the workers' arena.
class Shard {
 public:
  /// all : descriptions of the whole model's parameters in arena order.   server : buckets b with owner[b] == server
  /// device : where its arena is, and where what workers send is added up
  Shard(const Plan& plan, const std::vector<ParameterInfo>& all, const std::vector<int>& owner, int server,
        Device device = kCpu);

  struct Unit {  ///< one bucket
    std::size_t bucket = 0;
    int priority = 0;
    std::string name{};
    std::vector<Parameter*> parameters{};
    std::int64_t offset = 0, elements = 0;  ///< place in this arena, padding between parameters included
    std::vector<std::int64_t> workers_offset{};  ///< where each parameter begins in the workers' arena
  };
  const std::vector<Unit>& units() const { return units_; }  ///< ascending by bucket
  const Unit* unit_of(std::size_t bucket) const;             ///< null: another server has it
  std::span<const std::shared_ptr<Parameter>> parameters(
      const Unit& unit) const {  ///< the unit's, as they lie in the arena
    return std::span(arena_->parameters())
        .subspan(static_cast<std::size_t>(unit.parameters.front()->info.index), unit.parameters.size());
  }

  const ParameterArena& arena() const { return *arena_; }
  Slice<float> values(const Unit& unit) const { return part(arena_->values(), unit); }
  Slice<float> sum(const Unit& unit) const { return part(arena_->gradients(), unit); }

 private:
  static Slice<float> part(const Tensor& state, const Unit& unit) {
    return state.slice().sub(static_cast<std::size_t>(unit.offset), static_cast<std::size_t>(unit.elements));
  }
  std::vector<Unit> units_;
  std::unique_ptr<ParameterArena> arena_;
};

/// Descriptions of these parameters, in their order.
std::vector<ParameterInfo> infos_of(const std::vector<std::shared_ptr<Parameter>>& parameters);
/// Parameters of these names, shapes and roles, in the order in which they are registered, for an arena on that device.
std::vector<std::shared_ptr<Parameter>> twins_of(const std::vector<ParameterInfo>& in_arena_order, Device device);

/// As text for a server that has no model: [{"name": …, "shape": […], "role": …, "output": …}, …] in arena order.
std::string to_json(const std::vector<ParameterInfo>& all);
/// Parameters with these descriptions, and nothing in them: for Plan::from_json and Shard. throws DataError
std::vector<std::shared_ptr<Parameter>> parameters_from_json(const std::string& text);

}  // namespace laconic::dist
