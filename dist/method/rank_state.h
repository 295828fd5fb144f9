#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/state.h"

namespace laconic::dist {

/// How a tensor that each worker saves goes over to another number of workers.
enum class Join : std::uint8_t {
  sum,    ///< the sum over workers is what counts: it is formed in double and shared out evenly, the last rounding to
          ///< the first of them, so that the sum changes by at most one rounding of a float
  mean,   ///< the mean over workers is what counts, in which each may weigh otherwise: it is formed in double, and all
          ///< go on with it
  equal,  ///< all hold the same, and go on with it
  own,    ///< each its own: worker k goes on with that of worker k mod p, of p workers; where there is none, it begins
          ///< anew
  anew    ///< what a new training has
};

/// The workers that hold a share of a sum or mean: place k of them; -1: this one holds none, and saves zeros.
struct Holders {
  int place = 0, count = 1;
};

/// A part of a worker's state, for a checkpoint. Whoever adds a tensor says how it is joined, and a text says it in the
/// file. dist/trainer/resume.cc reads that.
class RankState : public StateDict {
 public:
  RankState() = default;
  /// all : the workers, and which of them this one is
  explicit RankState(Holders all) : all_(all) {}

  /// weight : of this worker's in a mean, as dist::weight_of gives it
  void set(const std::string& name, Tensor tensor, Join join, double weight = 1);
  /// A sum or mean of which not all workers hold a share.
  void set_of(Holders holders, const std::string& name, Tensor tensor, Join join);
  /// Joined so in these elements, [offset, offset + count); elsewhere equal. Ascending; none: Join::equal
  using Range = std::pair<std::int64_t, std::int64_t>;
  void set_in(std::span<const Range> ranges, const std::string& name, Tensor tensor, Join join);
  void set_numbers(const std::string& name, std::span<const std::int64_t> numbers, Join join);
  /// All that `part` saves, with `prefix` in front of its name. Texts begin anew.
  template <class Part>
  void save(const std::string& prefix, const Part& part, Join join) {
    StateDict own;
    part.save(own);
    for (const auto& [name, tensor] : own) set(prefix + name, tensor, join);
    for (const auto& [name, text] : own.texts()) set_text(prefix + name, text);
  }
  /// Likewise, of a part that says itself how its tensors are joined.
  template <class Part>
  void save(const std::string& prefix, const Part& part) {
    RankState own(all_);
    part.save(own);
    merge(own, prefix);
    for (auto& [name, holders] : own.holders_) holders_[prefix + name] = holders;
  }

  int workers() const { return all_.count; }
  Holders all() const { return all_; }
  /// Who holds a share of it.
  Holders holders(const std::string& name) const;

 private:
  Holders all_;
  std::map<std::string, Holders> holders_;
};

/// How a file says that a tensor is joined.
struct Joined {
  Join join = Join::anew;
  std::vector<RankState::Range> ranges{};  ///< of a sum or mean; empty: everywhere
  double weight = 1;                       ///< of this file's in a mean
};
/// throws DataError if it says nothing of that tensor, or nothing that is known
Joined joined_from(const StateDict& state, const std::string& name);

}  // namespace laconic::dist
