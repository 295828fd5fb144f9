#include "dist/engine/engine.h"

#include <limits>

namespace laconic::dist {

int Engine::reserve_slots(int count) {
  constexpr int kMost = std::numeric_limits<int>::max() / TransportCommunicator::kSlotsPerOperation;
  require<Error>(count >= 0 && count <= kMost - next_slot_, "engine: ", count, " more slots after ", next_slot_,
                 " are too many: there are ", kMost, " in all. Reserve them once and use them again.");
  return std::exchange(next_slot_, next_slot_ + count);
}

}  // namespace laconic::dist
