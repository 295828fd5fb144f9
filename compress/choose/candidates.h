#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/bytes.h"
#include "compress/elements.h"
#include "compress/choose/selection.h"
#include "core/slice.h"

namespace laconic::compress {

/// Elements of one tensor whose magnitude is at least a floor, as the residual pass meets them (accumulate_residual):
/// with some k of them known, choosing the k largest needs no look at the tensor. A Selector sets the floor
/// (Selector::prepare) and reads them; between the two the parts of the tensor come in any order, each once.
/// For a tensor on a CUDA device they stay on it, by tiles, and only its selector looks at them: count(), complete(),
/// indices() and values() speak of host memory.
class Candidates {
 public:
  bool active() const { return active_; }
  Sign sign() const { return sign_; }
  /// Nothing will be kept, and nothing is: where no good floor is known.
  void disable();
  /// From now on, of values that compete under `sign`, those whose magnitude is at least `floor` (>= 0; for one sign
  /// above 0 in any case). Beyond `most` they are counted but not kept.
  void begin(float floor, Sign sign, std::size_t most);

  /// No more than so many are kept.
  void limit(std::size_t most) { most_ = std::min(most_, most); }

  float floor() const { return floor_; }
  std::uint64_t elements() const { return elements_; }  ///< that were looked at
  std::uint64_t count() const { return count_; }        ///< of them at or above the floor
  /// All of them are kept.
  bool complete() const { return active_ && count_ == found_.size(); }

  /// Ascending by index. Cost: a sort of the parts if they did not come in order.
  Slice<const std::uint32_t> indices();
  Slice<const float> values();

  /// For accumulate_residual: one part of the tensor, from its element `first`, of which `count` are at or above the
  /// floor; the last `kept` of found() are they, ascending. kept is count, or 0 where there was no room.
  void note(std::uint32_t first, std::uint64_t elements, std::uint64_t count, std::size_t kept);
  Elements& found() { return found_; }
  std::vector<Elements>& scratch() { return scratch_; }  ///< for further threads
  std::size_t most() const { return most_; }

  /// On a CUDA device, what each tile of the parts that came had at or above the floor (compress/cuda/residual.h).
  struct Tiles {
    Bytes counts, slots;  ///< arrays, an element a tile (slots: kSlots)
    std::size_t tiles = 0;
    struct Part {
      std::uint32_t first;   ///< index in the tensor
      std::size_t elements;  ///< in tiles that are full but for the last
      std::size_t begin;     ///< its first tile
    };
    std::vector<Part> parts;
  };
  Tiles& tiles() { return tiles_; }
  void note_tiles(std::uint64_t elements) { elements_ += elements; }

 private:
  struct Run {
    std::uint32_t first;  // of the part in the tensor
    std::size_t begin, end;
  };
  void order();

  bool active_ = false;
  Sign sign_ = Sign::any;
  float floor_ = 0;
  std::size_t most_ = 0;
  std::uint64_t elements_ = 0, count_ = 0;
  Elements found_;
  std::vector<Elements> scratch_;
  std::vector<Run> runs_;
  Tiles tiles_;
};

}  // namespace laconic::compress
