#pragma once
#include <string>
#include <vector>

#include "apps/option_adder.h"
#include "apps/options.h"

namespace laconic {

/// The strategies of one kind, by the options that only they have. Each family has a file of its own and a line in
/// option_families().
struct OptionFamily {
  std::vector<std::string> syncs;  ///< what --sync calls them
  /// Adds a group of options, to be parsed into `options`.
  void (*add)(OptionAdder& add, TrainOptions& options);
  /// Once everything is parsed, for whatever --sync names: refuses options of the family that nothing has a use for,
  /// and values that make no sense together. Throws UsageError.
  void (*settle)(const CLI::App& app, TrainOptions& options);
};

OptionFamily codec_options();   ///< what sums pass through; of no --sync of their own
OptionFamily sparse_options();  ///< RedSync and its neighbours
OptionFamily server_options();  ///< with a parameter server

/// All of them, in the order of --help.
const std::vector<OptionFamily>& option_families();

}  // namespace laconic
