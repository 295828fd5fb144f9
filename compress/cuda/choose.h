#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "compress/selector.h"

/// Selection on a CUDA device, with the kernels of compress/cuda/select.h: what the selectors in compress/selectors/
/// are made of there.
namespace laconic::compress::cuda {

struct SelectScratch;

/// One selection. The scratch is kept from step to step, and made anew for another device.
struct Order {
  const SelectionInput& in;
  std::shared_ptr<SelectScratch>& scratch;
  Selection& out;
  bool wants_stats = true;  ///< a pass finds them where nobody knows them
};

/// Chooses the top k. Returns a floor for the next step, which some more than k reach.
float top(const Order& order);
/// Chooses the top k digit after digit, as RedSync's baseline does.
void radix(const Order& order);
/// Chooses the set of RedSync Algorithm 3. Returns a floor for the next step.
float search(const Order& order);
/// Chooses what is above a threshold: the first `most` of it, from candidates if they hold all of it.
void above(const Order& order, float threshold, std::size_t most);
/// Chooses all above a threshold.
void all_above(const Order& order, float threshold);
/// Chooses all at or above a threshold estimated from a sample of this share; of more than k the top k, if `limited`.
void estimated(const Order& order, double share, std::uint64_t turn, bool limited);
/// Chooses by AdaComp's rule.
void adacomp(const Order& order, std::size_t bin);
/// Takes the elements at these indices, which ascend.
void at(const Order& order, std::span<const std::uint32_t> indices);

}  // namespace laconic::compress::cuda
