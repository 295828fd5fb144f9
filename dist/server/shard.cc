#include "dist/server/shard.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/json.h"

namespace laconic::dist {

std::vector<int> servers_of(const Plan& plan, int servers) {
  require<UsageError>(servers >= 1, "there are ", servers, " servers where at least 1 is needed (`servers`): add one");
  std::vector<std::size_t> order(plan.buckets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return plan.buckets[a].elements > plan.buckets[b].elements; });
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers));
  std::vector<int> owner(plan.buckets.size());
  for (const std::size_t b : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owner[b] = static_cast<int>(least - load.begin());
    *least += plan.buckets[b].elements;
  }
  return owner;
}

Shard::Shard(const Plan& plan, const std::vector<ParameterInfo>& all, const std::vector<int>& owner, int server,
             Device device) {
  std::vector<std::shared_ptr<Parameter>> mine;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    if (owner[b] != server) continue;
    const Bucket& bucket = plan.buckets[b];
    Unit unit{.bucket = b, .priority = bucket.priority, .name = bucket.name};
    for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
      const ParameterInfo& info = all[static_cast<std::size_t>(i)];
      const Held held = held_by(bucket, info);
      mine.push_back(std::make_shared<Parameter>(held.shape, info.role, device == kGhost ? kGhost : kCpu));
      mine.back()->info.name = held.name;
      mine.back()->info.output = info.output;
      unit.parameters.push_back(mine.back().get());
      unit.workers_offset.push_back(held.offset);
    }
    units_.push_back(std::move(unit));
  }
  std::reverse(mine.begin(), mine.end());  // an arena is in the reverse order of registration
  arena_ = std::make_unique<ParameterArena>(mine, device);
  for (Unit& unit : units_) {
    const ParameterInfo &first = unit.parameters.front()->info, &last = unit.parameters.back()->info;
    unit.offset = first.offset;
    unit.elements = last.offset + last.elements - first.offset;
    require<Error>(unit.elements == plan.buckets[unit.bucket].elements, "server: the bucket ", unit.name, " has ",
                   plan.buckets[unit.bucket].elements, " elements among the workers and ", unit.elements, " here.");
  }
}

const Shard::Unit* Shard::unit_of(std::size_t bucket) const {
  const auto it = std::lower_bound(units_.begin(), units_.end(), bucket,
                                   [](const Unit& unit, std::size_t b) { return unit.bucket < b; });
  return it != units_.end() && it->bucket == bucket ? &*it : nullptr;
}

std::vector<ParameterInfo> infos_of(const std::vector<std::shared_ptr<Parameter>>& parameters) {
  std::vector<ParameterInfo> all;
  for (const auto& p : parameters) all.push_back(p->info);
  return all;
}

std::vector<std::shared_ptr<Parameter>> twins_of(const std::vector<ParameterInfo>& in_arena_order, Device device) {
  std::vector<std::shared_ptr<Parameter>> twins;
  for (auto info = in_arena_order.rbegin(); info != in_arena_order.rend(); ++info) {
    twins.push_back(std::make_shared<Parameter>(info->shape, info->role, device == kGhost ? kGhost : kCpu));
    twins.back()->info.name = info->name;
    twins.back()->info.output = info->output;
  }
  return twins;
}

namespace {

constexpr Role kRoles[] = {Role::conv, Role::linear, Role::recurrent, Role::embedding, Role::norm, Role::bias};

}  // namespace

std::string to_json(const std::vector<ParameterInfo>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const ParameterInfo& info : all) {
    std::vector<std::int64_t> shape;
    for (int i = 0; i < info.shape.rank(); ++i) shape.push_back(info.shape[i]);
    list.push_back({{"name", info.name},
                    {"shape", shape},
                    {"role", to_string(info.role)},
                    {"output", info.output},
                    {"offset", info.offset}});
  }
  return list.dump();
}

std::vector<std::shared_ptr<Parameter>> parameters_from_json(const std::string& text) {
  constexpr const char *kWhose = "server: what rank 0 says of the parameters is not readable (",
                       *kAdvice = "). Start all ranks with the same program.";
  std::vector<std::shared_ptr<Parameter>> all;
  try {
    for (const nlohmann::json& entry : json_from(text, "server: what rank 0 says")) {
      std::vector<std::int64_t> dimensions;
      for (const nlohmann::json& extent : entry.at("shape")) dimensions.push_back(whole_in<std::int64_t>(extent));
      require<DataError>(dimensions.size() <= Shape::kMaxRank, kWhose, "a shape has ", dimensions.size(), " dimensions",
                         kAdvice);
      constexpr std::int64_t kMost = std::int64_t{1} << 40;  // so that places and lengths can be added up
      std::int64_t elements = 1;
      for (const std::int64_t extent : dimensions) {
        require<DataError>(extent >= 1 && extent <= kMost / elements, kWhose, "an extent of ", extent,
                           " is none that a parameter has", kAdvice);
        elements *= extent;
      }
      const Shape shape = Shape{std::span<const std::int64_t>(dimensions)};
      const std::string role = entry.at("role").get<std::string>();
      const auto* const found =
          std::find_if(std::begin(kRoles), std::end(kRoles), [&](Role r) { return role == to_string(r); });
      require<DataError>(found != std::end(kRoles), kWhose, "there is no role '", role, "'", kAdvice);
      all.push_back(std::make_shared<Parameter>(shape, *found, kGhost));
      ParameterInfo& info = all.back()->info;
      info.name = entry.at("name").get<std::string>();
      info.output = entry.at("output").get<bool>();
      info.offset = whole_in<std::int64_t>(entry.at("offset"));
      require<DataError>(info.offset >= -1 && info.offset <= kMost, kWhose, info.name, " lies at ", info.offset,
                         kAdvice);
      info.index = static_cast<int>(all.size()) - 1;
    }
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat(kWhose, e.what(), kAdvice));
  }
  return all;
}

}  // namespace laconic::dist
