#pragma once
#include <string>
#include <vector>

namespace laconic {

/// Options that belong together, by one name: what a preset says counts like a default, so that options that are given
/// override it.
struct Preset {
  std::string name;
  std::vector<std::string> words;  ///< of an app's command line
  bool exchange = false;           ///< says how gradients travel; else with which hyper-parameters a model learns
  std::string small{};  ///< the model for programs of small images, where the one in `words` is of ImageNet's
};

/// INCEPTIONN's systems of Fig. 12 (WA, WA+C, INC, INC+C) and the hyper-parameters of its Table I; RedSync as
/// AlexNet-32 learns with it (docs/papers/redsync.md, "What it learns"); nanoGPT's two models of Shakespeare's
/// characters.
const std::vector<Preset>& presets();
/// Those that a list like "WA,INC+C" names, in its order.
/// throws UsageError naming `option`: unknown (suggests the nearest, lists all)
std::vector<const Preset*> presets_named(const std::string& list, const std::string& option);

}  // namespace laconic
