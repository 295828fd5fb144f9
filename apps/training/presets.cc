#include "apps/training/presets.h"

#include <sstream>

#include "core/base/catalogue.h"

namespace laconic {

const std::vector<Preset>& presets() {
  // Table I prints its learning rates with a minus sign, and says by how much they are divided.
  // Its ResNet has 50 layers. The nearest of the models for small images is resnet56.
  static const std::vector<Preset> all{
      {"WA", {"--sync", "ps"}, true},
      {"WA+C", {"--sync", "ps", "--codec", "inceptionn:2^-10"}, true},
      {"INC", {"--sync", "allreduce", "--allreduce", "ring"}, true},
      {"INC+C", {"--sync", "allreduce", "--allreduce", "ring", "--codec", "inceptionn:2^-10"}, true},
      {"redsync-alexnet", {"--sync", "redsync", "--density", "0.01", "--no-mask", "--warmup", "dense:1"}, true},
      {"inceptionn-alexnet",
       {"--model", "alexnet", "--batch", "64", "--lr", "0.01", "--schedule", "step:100000it,0.1", "--momentum", "0.9",
        "--weight-decay", "5e-5", "--steps", "320000"}},
      {"inceptionn-hdc",
       {"--model", "hdc", "--batch", "25", "--lr", "0.1", "--schedule", "step:2000it,0.2", "--momentum", "0.9",
        "--weight-decay", "5e-5", "--steps", "10000"}},
      {"inceptionn-resnet",
       {"--model", "resnet50", "--batch", "16", "--lr", "0.1", "--schedule", "step:200000it,0.1", "--momentum", "0.9",
        "--weight-decay", "1e-4", "--steps", "600000"},
       false,
       "resnet56"},
      {"inceptionn-vgg",
       {"--model", "vgg16", "--batch", "64", "--lr", "0.01", "--schedule", "step:100000it,0.1", "--momentum", "0.9",
        "--weight-decay", "5e-5", "--steps", "370000"}},
      {"shakespeare-char-cpu", {"--model", "gpt-4x128"}},
      {"shakespeare-char", {"--model", "gpt-6x384"}}};
  return all;
}

std::vector<const Preset*> presets_named(const std::string& list, const std::string& option) {
  std::vector<const Preset*> all;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) all.push_back(&row_named(presets(), name, "preset", option));
  if (all.empty()) row_named(presets(), list, "preset", option);
  return all;
}

}  // namespace laconic
