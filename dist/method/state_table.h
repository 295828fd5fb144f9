#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dist/method/rank_state.h"

namespace laconic::dist {

/// What a worker keeps from step to step, as a table. Checkpoints are written and read by it. What it names outlives
/// it. Errors call it `what`.
class StateTable {
 public:
  /// holders : the workers that hold a share of a sum or mean; nothing: all
  void tensor(const std::string& name, const Tensor& tensor, Join join, const std::string& what,
              std::optional<Holders> holders = {});
  /// An object with save(StateDict&) and load(), whose names begin with `prefix`.
  template <class Object>
  void object(const std::string& prefix, Object& object, Join join) {
    rows_.push_back({[prefix, &object, join](RankState& state) { state.save(prefix, object, join); },
                     [prefix, &object](const StateDict& state) { object.load(state.part(prefix)); }});
  }
  /// An object whose save(RankState&) says itself how its tensors are joined.
  template <class Object>
  void object(const std::string& prefix, Object& object) {
    rows_.push_back({[prefix, &object](RankState& state) { state.save(prefix, object); },
                     [prefix, &object](const StateDict& state) { object.load(state.part(prefix)); }});
  }
  /// A real that is saved as the nearest whole number.
  struct Rounded {
    double* number;
  };
  /// Whole numbers, and reals, which are saved as their bits.   required : no earlier version has saved none
  using Number = std::variant<std::int64_t*, double*, std::atomic<std::uint64_t>*, Rounded>;
  void numbers(const std::string& name, std::vector<Number> all, Join join, const std::string& what,
               bool required = true);
  /// Anything else.
  void row(std::function<void(RankState&)> save, std::function<void(const StateDict&)> load) {
    rows_.push_back({std::move(save), std::move(load)});
  }

  void save(RankState& state) const {
    for (const Row& row : rows_) row.save(state);
  }
  /// throws DataError if something is missing, or of another model
  void load(const StateDict& state) const {
    for (const Row& row : rows_) row.load(state);
  }

 private:
  struct Row {
    std::function<void(RankState&)> save;
    std::function<void(const StateDict&)> load;
  };
  std::vector<Row> rows_;
};

}  // namespace laconic::dist
