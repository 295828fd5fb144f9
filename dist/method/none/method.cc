#include "dist/method/none/method.h"

#include "dist/method/none/no_sync.h"

namespace laconic::dist {

std::unique_ptr<Strategy> NoExchange::worker(WorkerSide side) const {
  return std::make_unique<NoSync>(side.arena, std::move(side.update));
}

}  // namespace laconic::dist
