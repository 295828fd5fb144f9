// Weights as other programs have saved them (tests/golden/weights.py): what a model takes of them, and what it
// computes.
#include "layers/foreign_weights.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/ops/losses.h"
#include "layers/models/gpt.h"
#include "layers/models/gpt_config.h"
#include "layers/models/language_model.h"
#include "layers/models/zoo.h"
#include "layers/sequential.h"
#include "layers/weighted.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using models::GPT;

const std::string kWeights = std::string(LACONIC_SOURCE) + "/tests/golden/weights/";
constexpr GPT::Options kTiny{.vocabulary = 11, .layers = 2, .heads = 2, .width = 8, .block = 5};

/// Returns the notes, but for that of the heads, of which few of these files say anything.
std::vector<std::string> take(Module& model, const std::string& path) {
  TakenWeights taken = weights_for(model, WeightsFile(path), "the model");
  model.load_state_dict(model.translated(taken.weights), true, path, "the model");
  std::erase_if(taken.notes, [](const std::string& note) { return note.find("`heads`") != note.npos; });
  return taken.notes;
}

/// Of the last 40 characters of text.txt but the first, in blocks that lie one behind the other.
double loss_of(GPT& model) {
  const NoGrad no_grad;
  model.eval();
  const std::string text = file_text(kWeights + "text.txt").substr(360);
  std::vector<std::int64_t> tokens;
  for (const char c : text) tokens.push_back(c == '\n' ? 0 : c - 'a' + 1);
  double sum = 0;
  for (std::size_t at = 0; at + 1 < tokens.size(); at += 5) {
    const std::size_t count = std::min<std::size_t>(5, tokens.size() - 1 - at);
    const auto n = static_cast<std::int64_t>(count);
    const std::span<const std::int64_t> all(tokens);
    sum += ops::sum_of_cross_entropy(model(Tensor::of({n, 1}, all.subspan(at, count))),
                                     Tensor::of({n}, all.subspan(at + 1, count)));
  }
  return sum / static_cast<double>(tokens.size() - 1);
}

TEST(ForeignWeights, EveryProgramsFileGivesItsLoss) {
  const auto losses = nlohmann::json::parse(file_text(kWeights + "losses.json"));
  ASSERT_EQ(losses.size(), 13u);
  for (const auto& [file, expected] : losses.items()) {
    SCOPED_TRACE(file);
    GPT model(kTiny);
    model.initialize(1);
    const std::vector<std::string> notes = take(model, kWeights + file);
    EXPECT_NEAR(loss_of(model), expected.get<double>(), 1e-6);
    const std::map<std::string, std::string> noted{{"nanogpt.safetensors", "'_orig_mod.module.', which is taken off"},
                                                   {"tinygrad-padded.safetensors", "first 11 of 64 rows are taken"},
                                                   {"masks.safetensors", "'position_ids' and 1 more are passed over"}};
    const auto note = noted.find(file);
    ASSERT_EQ(notes.size(), note == noted.end() ? 0u : 1u);
    if (note == noted.end()) continue;
    EXPECT_NE(notes[0].find(note->second), std::string::npos) << notes[0];
  }
}

TEST(ForeignWeights, AnOutputOfItsOwnIsRefused) {
  GPT model(kTiny);
  model.initialize(1);
  expect_error<DataError>([&] { take(model, kWeights + "refused-untied.safetensors"); },
                          {"'lm_head.weight' differs from 'transformer.wte.weight'", "tied"});
  expect_error<DataError>([&] { take(model, kWeights + "refused.pth"); }, {"is a file of PyTorch", "torch.load"});
  expect_error<DataError>([&] { take(model, kWeights + "refused.npz"); }, {"is an .npz file", "numpy.load"});
}

class Taken : public ::testing::Test {
 protected:
  TempFolder dir_;
  std::string save(const StateDict& state) {
    save_safetensors(state, dir_ / "w.safetensors");
    return dir_ / "w.safetensors";
  }
  static StateDict renamed(const StateDict& state, const std::function<std::string(const std::string&)>& name) {
    StateDict other;
    for (const auto& [old, tensor] : state) other.set(name(old), tensor);
    return other;
  }
};

TEST_F(Taken, TheHeadsAreTheOptionThatShapesDoNotShow) {
  GPT two(kTiny);
  EXPECT_EQ(two.settings(), (std::map<std::string, std::string>{{"heads", "2"}}));
  EXPECT_EQ(make_model("resnet50")->settings().at("resnet-v1"), "no");
  EXPECT_EQ(make_model("resnet50", {.resnet_v1 = true})->settings().at("resnet-v1"), "yes");
  EXPECT_TRUE(make_model("lenet")->settings().empty());
}

TEST_F(Taken, ATiedLstmTakesItsWeightUnderEitherName) {
  const models::LanguageModel::Options tied{.vocabulary = 7, .hidden = 4, .layers = 1, .tied = true};
  models::LanguageModel model(tied), other(tied);
  model.initialize(3), other.initialize(4);
  const StateDict own = model.state_dict();
  const auto expect_taken = [&](const StateDict& state) {
    other.initialize(4);
    EXPECT_TRUE(take(other, save(state)).empty());
    for (const auto& [name, tensor] : other.state_dict())
      EXPECT_EQ(tensor.to_vector(), own.at(name).to_vector()) << name;
  };
  const StateDict behind =
      renamed(own, [](const std::string& n) { return n == "encoder.weight" ? "decoder.weight" : n; });
  expect_taken(behind);
  StateDict both = own;
  both.set("decoder.weight", own.at("encoder.weight"));
  expect_taken(both);
  both.set("decoder.weight", Tensor::zeros({7, 4}));
  expect_error<DataError>([&] { take(other, save(both)); }, {"'decoder.weight' differs from 'encoder.weight'"});
  // A model with two takes one tensor for both where the file says that they are one.
  models::LanguageModel::Options options = tied;
  options.tied = false;
  models::LanguageModel two(options);
  two.initialize(5);
  StateDict alias = own;
  alias.set_text("decoder.weight", "encoder.weight");
  take(two, save(alias));
  EXPECT_EQ(two.state_dict().at("decoder.weight").to_vector(), own.at("encoder.weight").to_vector());
}

TEST_F(Taken, WhatAnotherModelWouldNeedIsRefused) {
  GPT model(kTiny);
  model.initialize(1);
  GPT::Options deeper = kTiny;
  deeper.layers = 3;
  GPT deep(deeper);
  deep.initialize(1);
  expect_error<DataError>([&] { take(model, save(deep.state_dict())); }, {"'h.2.", "has nothing of that name"});
  StateDict biased = model.state_dict();
  biased.set("lm_head.bias", Tensor::zeros({11}));
  expect_error<DataError>([&] { take(model, save(biased)); }, {"'lm_head.bias' [11]", "has nothing of that name"});
  StateDict twice = model.state_dict();
  twice.set("transformer.ln_f.bias", Tensor::zeros({8}));
  expect_error<DataError>([&] { take(model, save(twice)); }, {"'ln_f.bias'", "'transformer.ln_f.bias'", "Leave one"});
  StateDict numbered = model.state_dict();
  numbered.set("ln_f.bias", Tensor::zeros({8}, DType::i64));
  expect_error<DataError>([&] { take(model, save(numbered)); }, {"'ln_f.bias' is I64", "float32 is needed"});
}

TEST_F(Taken, AVocabularyIsCutWhereItIsPaddedAlone) {
  GPT model(kTiny);
  for (const auto& [rows, cut] : {std::pair{64, true}, {63, false}, {128, false}, {12, false}}) {
    GPT::Options wider = kTiny;
    wider.vocabulary = rows;
    GPT padded(wider);
    padded.initialize(1), model.initialize(2);
    const std::string path = save(padded.state_dict());
    if (!cut) {
      expect_error<DataError>([&] { take(model, path); }, {concat("'wte.weight' is [", rows, ", 8] in the file")});
      continue;
    }
    EXPECT_EQ(take(model, path).size(), 1u);
    const Tensor theirs = padded.state_dict().at("wte.weight").rows(0, 11);
    EXPECT_EQ(model.state_dict().at("wte.weight").to_vector(), theirs.to_vector());
  }
}

TEST_F(Taken, APositionIsNoTokenThatCouldBeCut) {
  GPT::Options longer = kTiny;
  longer.block = 64;
  GPT model(kTiny), theirs(longer);
  theirs.initialize(1);
  expect_error<DataError>([&] { take(model, save(theirs.state_dict())); }, {"'wpe.weight' is [64, 8] in the file"});
}

TEST_F(Taken, ScalesOfQuantisedWeightsAreRefused) {
  GPT model(kTiny);
  model.initialize(1);
  for (const DType type : {DType::u8, DType::f32}) {
    StateDict state = model.state_dict();
    state.set("h.0.mlp.c_fc.weight_scale", Tensor::zeros({32}, type));
    expect_error<DataError>([&] { take(model, save(state)); }, {"'h.0.mlp.c_fc.weight_scale' belongs to a tensor"});
  }
}

TEST_F(Taken, AveragesOfPyTorchLoseTheirPrefix) {
  GPT model(kTiny), other(kTiny);
  model.initialize(1), other.initialize(2);
  StateDict state = renamed(model.state_dict(), [](const std::string& name) { return "module." + name; });
  state.set("n_averaged", Tensor::zeros({}, DType::i64));
  EXPECT_EQ(take(other, save(state)).size(), 2u);  // the prefix, and what was passed over
  EXPECT_EQ(other.state_dict().at("wpe.weight").to_vector(), model.state_dict().at("wpe.weight").to_vector());
}

TEST_F(Taken, HeadsThatAFileDoesNotSayAreNoted) {
  GPT model(kTiny);
  model.initialize(1);
  StateDict state = model.state_dict();
  const auto notes = [&] { return weights_for(model, WeightsFile(save(state)), "the model").notes; };
  ASSERT_EQ(notes().size(), 1u);
  EXPECT_NE(notes()[0].find("does not say with which `heads` it was trained; 2 is taken"), std::string::npos);
  state.set_text("heads", "2");
  EXPECT_EQ(notes().size(), 0u);
}

TEST_F(Taken, CountersOfBatchNormMayBeShorter) {
  const auto model = sequential({{"bn", make<BatchNorm2d>({.channels = 2})}});
  model->initialize(0);
  StateDict state = renamed(model->state_dict(), [](const std::string& n) { return "module." + n; });
  const Tensor counter = Tensor::empty({}, DType::i32);
  *counter.data<std::int32_t>() = 70'000;
  state.set("module.bn.num_batches_tracked", counter);
  EXPECT_EQ(take(*model, save(state)).size(), 1u);
  EXPECT_EQ(model->state_dict().at("bn.num_batches_tracked").to_vector()[0], 70'000);
}

TEST_F(Taken, APrefixStaysThatIsTheModelsOwn) {
  const auto model = sequential({{"model", make<Linear>({.in = 2, .out = 2})}});
  model->initialize(0);
  EXPECT_TRUE(take(*model, save(model->state_dict())).empty());
  const StateDict twice = renamed(model->state_dict(), [](const std::string& n) { return "model." + n; });
  EXPECT_EQ(take(*model, save(twice)).size(), 1u);
}

std::vector<int> sizes_in(const GPT::Options& o) { return {o.layers, o.heads, o.width, o.block}; }

TEST(GptConfig, IsFollowed) {
  const auto o = models::gpt_from_config(kWeights + "transformers");
  ASSERT_TRUE(o.has_value());
  EXPECT_EQ(sizes_in(*o), sizes_in(kTiny));
  EXPECT_EQ(o->dropout, 0.1f);
  EXPECT_FALSE(models::gpt_from_config(kWeights + "nowhere").has_value());
  const TempFolder dir;
  const auto of = [&](const std::string& text) {
    dir.write("config.json", {text.begin(), text.end()});
    return models::gpt_from_config(dir.path());
  };
  EXPECT_FALSE(of(R"({"name": "another program's"})").has_value());
  EXPECT_EQ(of(R"({"model_type": "gpt2"})")->width, 768) << "transformers' own";
  EXPECT_EQ(of(R"({"model_type": "gpt2", "num_attention_heads": 4})")->heads, 4);
  // What is written is read.
  GPT::Options options = kTiny;
  options.dropout = 0.1f;
  GPT model(options);
  const std::string text = models::config_of(model, 3);
  const auto back = of(text);
  EXPECT_EQ(sizes_in(*back), sizes_in(kTiny));
  EXPECT_EQ(back->dropout, 0.1f);
  EXPECT_EQ(nlohmann::json::parse(text)["resid_pdrop"].dump(), "0.1");
  EXPECT_EQ(nlohmann::json::parse(text)["eos_token_id"], 3);
}

TEST(GptConfig, WhatGptHasOtherwiseIsRefusedByName) {
  const TempFolder dir;
  const auto config = nlohmann::json::parse(file_text(kWeights + "transformers/config.json"));
  const auto expect_refused = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json changed = config;
    changed[key] = value;
    const std::string text = changed.dump();
    dir.write("config.json", {text.begin(), text.end()});
    expect_error<DataError>([&] { models::gpt_from_config(dir.path()); }, {dir / "config.json", "\"" + key + "\""});
  };
  expect_refused("model_type", "llama");
  expect_refused("activation_function", "relu");
  expect_refused("layer_norm_epsilon", 1e-6);
  expect_refused("n_inner", 16);
  expect_refused("scale_attn_weights", false);
  expect_refused("scale_attn_by_inverse_layer_idx", true);
  expect_refused("add_cross_attention", true);
  expect_refused("attn_pdrop", 0.3);
  expect_refused("quantization_config", {{"bits", 8}});
  for (const auto& value : {nlohmann::json(0), nlohmann::json(-2), nlohmann::json(2.5), nlohmann::json("2"),
                            nlohmann::json(std::uint64_t{1} << 40)})
    expect_refused("n_head", value);
}

}  // namespace
}  // namespace laconic
