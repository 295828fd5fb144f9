#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/parameter.h"

namespace laconic::dist {

enum class Algorithm { ring, butterfly };
const char* to_string(Algorithm algorithm);
/// Throws UsageError for an unknown name, with the nearest.
Algorithm algorithm_named(const std::string& name);

/// Parameters that travel as one message: neighbours in the arena, elements [offset, offset + elements) of it, the
/// padding between them included.
struct Bucket {
  int first = 0, count = 0;  ///< parameters, by their place in the arena
  std::int64_t offset = 0, elements = 0;
  Algorithm algorithm = Algorithm::ring;
  int priority = 0;  ///< larger goes first: what the next forward needs first
  std::string name;  ///< "conv1.weight" or "bn2.weight..conv1.weight"
};

struct PlanOptions {
  Algorithm algorithm = Algorithm::ring;
  std::size_t bucket_bytes = 1 << 20;  ///< neighbours join while their bucket is not larger; 0: every parameter alone
};

/// How every parameter of a model travels. Fixed before step 1, by sizes and never by timing, and equal on all ranks:
/// block boundaries decide the order of additions, so an equal plan means equal bits.
struct Plan {
  std::vector<Bucket> buckets;  ///< in arena order, every parameter in exactly one
  std::vector<int> bucket_of;   ///< by a parameter's place in the arena

  /// One line a bucket: name, parameters, bytes, algorithm.
  std::string table() const;
};

/// Buckets of arena neighbours. A parameter above bucket_bytes travels alone.
Plan make_plan(const std::vector<std::shared_ptr<Parameter>>& parameters, const PlanOptions& options);

}  // namespace laconic::dist
