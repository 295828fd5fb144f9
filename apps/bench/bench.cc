#include "apps/bench/bench.h"

#include <cstdio>

#include "core/error.h"

namespace laconic {

int bench(const std::vector<std::string>& arguments) {
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (!arguments.empty() && arguments[0] == "step") return bench_step(rest);
  if (!arguments.empty() && arguments[0] == "step-child") return bench_step_child(rest);
  if (!arguments.empty() && arguments[0] == "layers") return bench_layers(rest);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::printf(
        "Usage: laconic bench step ...    training steps per second, alone or paired with PyTorch; --help tells its options\n"
        "       laconic bench layers ...  time of each layer in a training step\n");
    return 0;
  }
  throw UsageError("unknown benchmark '" + arguments[0] + "' (laconic bench): there are step and layers");
}

}  // namespace laconic
