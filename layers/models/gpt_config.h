#pragma once
#include <optional>
#include <string>

#include "layers/models/gpt.h"

/// config.json, in which Hugging Face's transformers says what a model of its kind "gpt2" is, beside its weights.
namespace laconic::models {

/// What the config.json in a folder says. A key that is not there has transformers' default. Nothing: there is no such
/// file, or it says nothing of a model ("model_type").
/// throws DataError naming the file and the key: damaged, a model of another kind, or a GPT-2 with something that GPT
///        has otherwise: another activation, epsilon, width of the mlp, scaling of attention, or quantised weights
std::optional<GPT::Options> gpt_from_config(const std::string& folder);

/// The text of such a file. `end` is the token that ends a text, if there is one.
std::string config_of(const GPT& model, std::optional<int> end = std::nullopt);

}  // namespace laconic::models
