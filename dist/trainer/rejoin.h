#pragma once
#include <functional>
#include <string>

#include "dist/method/rank_state.h"
#include "dist/trainer/checkpoint.h"

namespace laconic {

/// What this worker goes on with from a checkpoint of another number of workers or servers: every tensor of `fresh`
/// joined as its file says (dist::Join), and every text of `fresh`; of "run/" those of a file. If there are as many
/// workers as before, each keeps what is its own, but for what begins anew. Reads one file after the other.
///   fresh     what this worker would save now; what a file has not, or of another shape, stays as it is there
///   manifest  of the checkpoint
///   cost      reads all workers' files; memory of one of them, and 8 bytes for each element of a sum or a mean
///   throws    DataError if a file does not say how it is joined: it is of an earlier version
StateDict rejoined(const dist::RankState& fresh, const std::string& checkpoint, const Manifest& manifest, int rank);

/// f(state) for what each server of the checkpoint has saved, dedicated or among the workers.
void each_server(const std::string& checkpoint, const Manifest& manifest,
                 const std::function<void(const StateDict& server)>& f);

}  // namespace laconic
