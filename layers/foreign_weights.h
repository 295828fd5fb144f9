#pragma once
#include <string>
#include <vector>

#include "core/weights_file.h"
#include "layers/module.h"

namespace laconic {

/// What a model takes of a file, under its own names.
struct TakenWeights {
  StateDict weights;               ///< float32 and int64, with the file's texts; for Module::translated()
  std::vector<std::string> notes;  ///< what was done besides, each a sentence
};

/// Chooses and reads what a model needs. `what` the model is, for messages.
///   prefixes    that all names share (module., _orig_mod., model., backbone.) are taken off
///   tied        a tensor that the model has under several names may be under each of them, or under all with equal
///               numbers
///   vocabulary  one that is padded to a multiple of 64 is cut to the model's
///   not needed  whole numbers and what has no known type, and floats of a part that the model lacks, are not read.
///               Floats without a place in a part that it has are of another model: they stay, for load_state_dict() to
///               refuse them
/// throws DataError: tied names with different numbers, a tensor under two names that are one here, a type that is not
///        the model's and cannot become it
TakenWeights weights_for(const Module& model, const WeightsFile& file, const std::string& what);

}  // namespace laconic
