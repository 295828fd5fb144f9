#include "layers/models/gpt_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/atomic_file.h"
#include "core/base/json.h"

namespace laconic::models {
namespace {

using Config = nlohmann::ordered_json;

constexpr double kEpsilon = 1e-5;
/// Three names of one formula: GELU by tanh.
constexpr const char* kActivations[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};

class Reader {
 public:
  Reader(const Config& config, std::string path) : config_(config), path_(std::move(path)) {}

  /// Nothing: the key is not there, or null.
  const Config* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  int size(const char* key, const char* other, int usual) const {
    const Config* value = find(key) ? find(key) : find(other);
    if (!value) return usual;
    constexpr int kMost = 1 << 20;
    require<DataError>(
        value->is_number_unsigned() && value->get<std::uint64_t>() >= 1 && value->get<std::uint64_t>() <= kMost, path_,
        ": \"", key, "\" is ", shown(*value), ", not a whole number from 1 to ", kMost, ".");
    return value->get<int>();
  }
  double number(const char* key, double usual) const {
    const Config* const value = find(key);
    require<DataError>(!value || value->is_number(), path_, ": \"", key, "\" is ", value ? shown(*value) : "",
                       ", not a number.");
    return value ? value->get<double>() : usual;
  }
  /// ours : what GPT has.   usual : the value where there is none
  void require_equal(const char* key, bool usual, bool ours) const {
    const Config* const value = find(key);
    require_ours((value ? *value : Config(usual)) == Config(ours), key, ours ? "true" : "false");
  }
  void require_ours(bool ok, const char* key, const std::string& ours) const {
    require<DataError>(ok, path_, ": \"", key, "\" is ", find(key) ? shown(*find(key)) : "not there", ", and gpt has ",
                       ours, " alone: it would compute something else. Take another model.");
  }

 private:
  static std::string shown(const Config& value) {
    const std::string text = value.dump(-1, ' ', true);
    return text.size() <= 60 ? text : text.substr(0, 57) + "…";
  }
  const Config& config_;
  const std::string path_;
};

void require_our_kind(const Reader& in, const GPT::Options& o) {
  const Config* const activation = in.find("activation_function");
  in.require_ours(!activation || std::ranges::any_of(kActivations, [&](const char* a) { return *activation == a; }),
                  "activation_function", "gelu_new");
  in.require_ours(std::abs(in.number("layer_norm_epsilon", kEpsilon) - kEpsilon) < 1e-9, "layer_norm_epsilon", "1e-5");
  in.require_ours(in.size("n_inner", "n_inner", 4 * o.width) == 4 * o.width, "n_inner", std::to_string(4 * o.width));
  in.require_equal("scale_attn_weights", true, true);
  in.require_equal("scale_attn_by_inverse_layer_idx", false, false);
  in.require_equal("add_cross_attention", false, false);
  in.require_ours(!in.find("quantization_config"), "quantization_config", "weights that are not quantised");
}

}  // namespace

std::optional<GPT::Options> gpt_from_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const std::optional<std::string> text = text_of_file(path, 1 << 20);
  require<DataError>(text.has_value(), path, " cannot be read. Correct its permissions.");
  const Config config = object_without_twins(*text, path, "the file", 64);
  const Reader in(config, path);
  const Config* const type = in.find("model_type");
  if (!type) return std::nullopt;
  in.require_ours(*type == "gpt2", "model_type", "gpt2");
  GPT::Options o{.vocabulary = in.size("vocab_size", "vocab_size", 50257),
                 .layers = in.size("n_layer", "num_hidden_layers", 12),
                 .heads = in.size("n_head", "num_attention_heads", 12),
                 .width = in.size("n_embd", "hidden_size", 768),
                 .block = in.size("n_positions", "max_position_embeddings", 1024)};
  require_our_kind(in, o);
  const double dropout = in.number("resid_pdrop", 0.1);
  for (const char* key : {"resid_pdrop", "attn_pdrop", "embd_pdrop"})
    require<DataError>(in.number(key, 0.1) == dropout && dropout >= 0 && dropout < 1, path, ": \"", key, "\" is ",
                       in.number(key, 0.1), " and \"resid_pdrop\" ", dropout,
                       ", and gpt has one share for all, from 0 to below 1. Make them equal.");
  o.dropout = static_cast<float>(dropout);
  return o;
}

std::string config_of(const GPT& model, std::optional<int> end) {
  const GPT::Options& o = model.options();
  // A share as it was typed: 0.1, not the float32 that is nearest to it.
  const double dropout = std::round(static_cast<double>(o.dropout) * 1e6) / 1e6;
  const Config ends = end ? Config(*end) : Config(nullptr);
  return Config{{"architectures", {"GPT2LMHeadModel"}},
                {"model_type", "gpt2"},
                {"vocab_size", o.vocabulary},
                {"n_positions", o.block},
                {"n_embd", o.width},
                {"n_layer", o.layers},
                {"n_head", o.heads},
                {"activation_function", kActivations[0]},
                {"layer_norm_epsilon", kEpsilon},
                {"resid_pdrop", dropout},
                {"embd_pdrop", dropout},
                {"attn_pdrop", dropout},
                {"tie_word_embeddings", true},
                {"bos_token_id", ends},
                {"eos_token_id", ends}}
             .dump(2) +
         "\n";
}

}  // namespace laconic::models
