#pragma once
#include <string>

#include "apps/training/options.h"
#include "data/text.h"
#include "dist/trainer/workload.h"
#include "layers/models/gpt.h"

/// A GPT's files as Hugging Face has them: weights, config.json beside them, and what texts are cut into.
namespace laconic {

/// The GPT that --init and the command line ask for, all but its vocabulary. What a config.json beside the weights says
/// is followed.
/// throws UsageError: the command line says something else;   DataError as models::gpt_from_config
models::GPT::Options gpt_asked_for(const TrainOptions& options, models::GPT::Options of_recipe);

/// The vocabulary that lies beside the weights of --init and their config.json, as --tokens names one; "" if there is
/// none.
std::string tokens_of_weights(const TrainOptions& options);

/// "numbers:SIZE" with the vocabulary of that config.json; "numbers" if there is none.
std::string numbers_of_weights(const TrainOptions& options);

/// throws UsageError: what --export would write beside its file is there already, and is of something else than this
/// model and its text
void require_room_for_export(const TrainOptions& options, const models::GPT::Options& model, const TextDataset& data);
/// Writes the weights to --export, config.json beside them, and the vocabulary if it is one of pairs. All of them
/// appear complete.   throws DataError
void export_gpt(const TrainOptions& options, const models::GPT& model, const Workload& workload,
                const TextDataset& data);

}  // namespace laconic
