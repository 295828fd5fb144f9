// What a project of one's own needs: the headers by their folders, and the library that pkg-config names.
#include <cstdio>

#include "core/error.h"
#include "core/state.h"
#include "core/tensor.h"

int main() {
  using namespace laconic;
  StateDict weights;
  weights.set("fc.weight", Tensor::of({2, 2}, {1, 2, 3, 4}));
  save_safetensors(weights, "own.safetensors");
  const Tensor back = load_safetensors("own.safetensors").at("fc.weight");
  if (back.to_vector() != weights.at("fc.weight").to_vector()) return 1;
  std::printf("own_model: saved and loaded %d weights\n", static_cast<int>(back.elements()));
}
