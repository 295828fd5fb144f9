#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compress/choose/selector.h"
#include "core/base/steps.h"

/// Selection on a CUDA device, with the kernels of compress/cuda/select.h: what the selectors in compress/selectors/
/// are made of there. Each asks for kernels, and goes on when the device has come to what they found.
namespace laconic::compress::cuda {

struct SelectScratch;

/// One selection, whose input and output outlive its steps. The scratch is kept from step to step, and made anew for
/// another device.
struct Order {
  const SelectionInput& in;
  std::shared_ptr<SelectScratch>& scratch;
  Selection& out;
  bool wants_stats = true;  ///< a pass finds them where nobody knows them
};

/// Called with a floor for the next step. Somewhat more elements reach it than were chosen.
using Floor = std::function<void(float)>;

/// Chooses the top k.
Steps top(Order order, Floor floor);
/// Chooses the top k digit after digit, as RedSync's baseline does.
Steps radix(Order order);
/// Chooses the set of RedSync Algorithm 3.
Steps search(Order order, Floor floor);
/// Chooses what is above a threshold: the first `most` of it, from candidates if they hold all of it.
Steps above(Order order, float threshold, std::size_t most);
/// Chooses all above a threshold.
Steps all_above(Order order, float threshold);
/// Chooses all at or above a threshold estimated from a sample of this share; of more than k the top k, if `limited`.
Steps estimated(Order order, double share, std::uint64_t turn, bool limited);
/// Chooses by AdaComp's rule.
Steps adacomp(Order order, std::size_t bin);
/// Takes the elements at these indices, which ascend.
Steps at(Order order, std::vector<std::uint32_t> indices);

}  // namespace laconic::compress::cuda
