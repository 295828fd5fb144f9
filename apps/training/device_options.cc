#include "apps/training/device_options.h"

#include <fmt/format.h>

#include <cstdlib>

#include "apps/command_line.h"
#include "core/dispatch.h"
#include "core/stream.h"

namespace laconic {

std::string checked_device(const std::string& text, const std::string& option) {
  if (text == "cpu") return text;
  const bool numbered = text.rfind("cuda:", 0) == 0;
  const int index = numbered ? number_from<int>(text.substr(5)).value_or(-1) : 0;
  if ((text != "cuda" && !numbered) || index < 0)
    refuse("unknown device '" + text + "'", option, kCudaBuilt ? "give cpu, cuda or cuda:0" : "this build has cpu");
  if (!kCudaBuilt)
    refuse("this build has no CUDA", option,
           "use --device cpu, or configure it with -Dcuda=enabled, which says what is missing");
  const int devices = cuda_devices();
  if (devices == 0) refuse("no CUDA device can be used here: " + why_no_cuda_device(), option, "use --device cpu");
  if (index >= devices)
    refuse("there is no " + text, option,
           devices == 1 ? "give cuda:0" : fmt::format("the last is cuda:{}", devices - 1));
  return text;
}

namespace {

/// This process's number among those of its job on this machine; 0 where no launcher tells it. Slurm's comes last: a
/// batch step has one too, and ranks that mpirun starts there inherit it.
int local_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK",  // Open MPI
                           "MPI_LOCALRANKID",             // MPICH, Intel MPI
                           "PMI_LOCAL_RANK",              // Cray MPICH
                           "PMIX_LOCAL_RANK", "SLURM_LOCALID"})
    if (const char* text = std::getenv(name))
      if (const auto rank = number_from<int>(text); rank && *rank >= 0) return *rank;
  return 0;
}

}  // namespace

Device device_named(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text != "cuda") return {Device::Kind::cuda, number_from<int>(text.substr(5)).value_or(0)};
  return {Device::Kind::cuda, local_rank() % std::max(1, cuda_devices())};
}

Precision checked_precision(const std::string& text, const std::string& device, const std::string& option) {
  one_of(text, option, {"fp32", "tf32", "bf16"});
  if (text != "fp32" && device == "cpu")
    refuse("the CPU computes in fp32 only", option, "add --device cuda, or leave it out");
  if (text != "fp32")
    if (const int index = device_named(device).index; cuda_compute_capability(index) < 80)
      refuse(cuda_device_name(index) + " has no tensor cores for " + text, option, "leave it out");
  return text == "bf16" ? Precision::bf16 : text == "tf32" ? Precision::tf32 : Precision::fp32;
}

}  // namespace laconic
