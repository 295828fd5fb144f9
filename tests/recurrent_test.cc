// Recurrent layers: PyTorch's values (tests/golden/recurrent.py), the state between segments, dropout, and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/reshape.h"
#include "core/state.h"
#include "layers/layers.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

using nlohmann::json;

class RecurrentGolden : public ::testing::Test {
 protected:
  RecurrentGolden()
      : file_(load_safetensors(std::string(LACONIC_SOURCE) + "/tests/golden/recurrent.safetensors")),
        cases_(json::parse(file_.text("cases"))) {}

  /// f(options, values) for each case of this layer, on each device.
  template <class F>
  void each(const std::string& layer, int cases, F&& f) {
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      if (cases_[i].at("layer") != layer) continue;
      const StateDict v = file_.part(std::to_string(i) + ".");
      for (const Device device : with_cuda()) {
        SCOPED_TRACE(concat("case ", i, ": ", cases_[i].dump(), ", x ", v.at("x").shape(), " on ", device));
        StateDict there;
        for (const auto& [name, tensor] : v) there.set(name, copied(tensor, device));
        f(cases_[i], there);
      }
      --cases;
    }
    EXPECT_EQ(cases, 0);
  }

  /// The parameters, with these values, where the values are.
  [[nodiscard]] static std::unique_ptr<ParameterArena> set(const Module& layer, const StateDict& v) {
    auto arena = std::make_unique<ParameterArena>(layer.parameters(), v.at("x").device());
    for (const auto& p : layer.named_parameters()) p.parameter->value().copy_from(v.at("p." + p.name));
    return arena;
  }
  static void expect_gradients(const Module& layer, const StateDict& v) {
    for (const auto& p : layer.named_parameters())
      expect_close(p.parameter->grad(), v.at("g." + p.name), 2e-5f, "gradient of " + p.name);
  }

  StateDict file_;
  json cases_;
};

TEST_F(RecurrentGolden, Lstm) {
  each("LSTM", 11, [](const json& o, const StateDict& v) {
    LSTM layer({.in = o.at("in"),
                .hidden = o.at("hidden"),
                .layers = o.at("layers"),
                .bidirectional = o.value("bidirectional", false)});
    const auto arena = set(layer, v);
    const auto leaf = std::make_shared<Leaf>();
    LSTM::State state{v.at("h"), v.at("c")};
    const Tensor y = layer(with_gradient(v.at("x"), leaf), state);
    expect_close(y, v.at("y"), 2e-6f, "y");
    expect_close(state.h, v.at("hn"), 2e-6f, "h after");
    expect_close(state.c, v.at("cn"), 2e-6f, "c after");
    with_upstream(y, v.at("dy")).backward();
    expect_close(leaf->grad, v.at("dx"), 2e-5f, "dx");
    expect_gradients(layer, v);
  });
}

TEST_F(RecurrentGolden, Gru) {
  each("GRU", 11, [](const json& o, const StateDict& v) {
    GRU layer({.in = o.at("in"),
               .hidden = o.at("hidden"),
               .layers = o.at("layers"),
               .bidirectional = o.value("bidirectional", false)});
    const auto arena = set(layer, v);
    const auto leaf = std::make_shared<Leaf>();
    Tensor state = v.at("h");
    const Tensor y = layer(with_gradient(v.at("x"), leaf), state);
    expect_close(y, v.at("y"), 2e-6f, "y");
    expect_close(state, v.at("hn"), 2e-6f, "h after");
    with_upstream(y, v.at("dy")).backward();
    expect_close(leaf->grad, v.at("dx"), 2e-5f, "dx");
    expect_gradients(layer, v);
  });
}

TEST_F(RecurrentGolden, Rnn) {
  each("RNN", 8, [](const json& o, const StateDict& v) {
    const auto f = o.value("nonlinearity", "tanh") == "relu" ? RNN::Nonlinearity::relu : RNN::Nonlinearity::tanh;
    RNN layer({.in = o.at("in"),
               .hidden = o.at("hidden"),
               .layers = o.at("layers"),
               .nonlinearity = f,
               .bidirectional = o.value("bidirectional", false)});
    const auto arena = set(layer, v);
    const auto leaf = std::make_shared<Leaf>();
    Tensor state = v.at("h");
    const Tensor y = layer(with_gradient(v.at("x"), leaf), state);
    expect_close(y, v.at("y"), 1e-5f, "y");  // nothing forgets: rounding errors grow from step to step
    expect_close(state, v.at("hn"), 1e-5f, "h after");
    with_upstream(y, v.at("dy")).backward();
    expect_close(leaf->grad, v.at("dx"), 2e-5f, "dx");
    expect_gradients(layer, v);
  });
}

TEST_F(RecurrentGolden, LstmCellWithTheGradientOfItsState) {
  each("LSTMCell", 1, [](const json& o, const StateDict& v) {
    LSTMCell cell({.in = o.at("in"), .hidden = o.at("hidden")});
    const auto arena = set(cell, v);
    const auto h = std::make_shared<Leaf>(), c = std::make_shared<Leaf>();
    LSTMCell::State state{with_gradient(v.at("h"), h), with_gradient(v.at("c"), c)};
    const std::int64_t steps = v.at("x").dim(0), batch = v.at("x").dim(1);
    std::vector<std::shared_ptr<Leaf>> leaves;
    Tensor loss;
    for (std::int64_t t = 0; t < steps; ++t) {
      leaves.push_back(std::make_shared<Leaf>());
      const Tensor x = v.at("x").rows(t, 1).view({batch, v.at("x").dim(2)});
      const Tensor y = cell(with_gradient(x, leaves.back()), state);
      expect_close(y, v.at("y").rows(t, 1).view(y.shape()), 2e-6f, concat("y of step ", t));
      const Tensor part = with_upstream(y, v.at("dy").rows(t, 1).view(y.shape()));
      loss = loss.defined() ? ops::add(loss, part) : part;
    }
    expect_close(state.h, v.at("hn"), 2e-6f, "h after");
    expect_close(state.c, v.at("cn"), 2e-6f, "c after");
    loss.backward();
    for (std::int64_t t = 0; t < steps; ++t) {
      const Tensor& dx = leaves[static_cast<std::size_t>(t)]->grad;
      expect_close(dx, v.at("dx").rows(t, 1).view(dx.shape()), 2e-5f, concat("dx of step ", t));
    }
    expect_close(h->grad, v.at("dh"), 2e-5f, "dh");
    expect_close(c->grad, v.at("dc"), 2e-5f, "dc");
    expect_gradients(cell, v);
  });
}

TEST_F(RecurrentGolden, Embedding) {
  each("Embedding", 2, [](const json& o, const StateDict& v) {
    Embedding layer({.vocabulary = o.at("in"), .dim = o.at("hidden")});
    const auto arena = set(layer, v);
    const Tensor y = layer(v.at("x"));
    expect_close(y, v.at("y"), 0, "y");
    with_upstream(y, v.at("dy")).backward();
    expect_gradients(layer, v);
  });
}

TEST(Lstm, TwoSegmentsWithTheStateCarriedOverAreOneLongSequence) {
  for (const Device device : with_cuda()) {
    LSTM layer({.in = 5, .hidden = 19, .layers = 2});
    layer.initialize(1);
    const ParameterArena arena(layer.parameters(), device);
    const Tensor x = copied(random_tensor({9, 4, 5}, 2), device);
    LSTM::State whole, carried;
    const Tensor y = layer(x, whole);
    const Tensor first = layer(x.rows(0, 6), carried), second = layer(x.rows(6, 3), carried);
    expect_close(first, y.rows(0, 6), 1e-6f, "first segment");
    expect_close(second, y.rows(6, 3), 1e-6f, "second segment");
    expect_close(carried.h, whole.h, 1e-6f, "h");
    expect_close(carried.c, whole.c, 1e-6f, "c");
    EXPECT_EQ(layer(x).to_vector(), y.to_vector());  // without a state: from zeros
  }
}

TEST(Gru, TwoSegmentsWithTheStateCarriedOverAreOneLongSequence) {
  for (const Device device : with_cuda()) {
    GRU layer({.in = 5, .hidden = 19, .layers = 2});
    layer.initialize(1);
    const ParameterArena arena(layer.parameters(), device);
    const Tensor x = copied(random_tensor({9, 4, 5}, 2), device);
    Tensor whole, carried;
    const Tensor y = layer(x, whole);
    const Tensor first = layer(x.rows(0, 6), carried), second = layer(x.rows(6, 3), carried);
    expect_close(first, y.rows(0, 6), 1e-6f, "first segment");
    expect_close(second, y.rows(6, 3), 1e-6f, "second segment");
    expect_close(carried, whole, 1e-6f, "h");
    EXPECT_FALSE(carried.node());
    EXPECT_EQ(layer(x).to_vector(), y.to_vector());  // without a state: from zeros
  }
}

TEST(LstmCell, StepByStepIsTheLayer) {
  LSTMCell cell({.in = 5, .hidden = 19});
  cell.initialize(1);
  LSTM layer({.in = 5, .hidden = 19});
  for (std::size_t i = 0; i < 4; ++i) layer.parameters()[i]->value().copy_from(cell.parameters()[i]->value());
  const Tensor x = random_tensor({3, 4, 5}, 2), y = layer(x);
  LSTMCell::State state;
  for (std::int64_t t = 0; t < 3; ++t) {
    const Tensor h = cell(x.rows(t, 1).view({4, 5}), state);
    expect_close(h, y.rows(t, 1).view({4, 19}), 1e-6f, concat("step ", t));
  }
  EXPECT_THROW(cell(Tensor::zeros({4, 3}), state), ShapeError);
  EXPECT_THROW(cell(Tensor::zeros({2, 5}), state), ShapeError);
  EXPECT_THROW(LSTMCell({.in = 1, .hidden = 0}), ShapeError);
}

TEST(Rnn, TwoSegmentsWithTheStateCarriedOverAreOneLongSequence) {
  for (const Device device : with_cuda()) {
    RNN layer({.in = 5, .hidden = 19, .layers = 2, .nonlinearity = RNN::Nonlinearity::relu});
    layer.initialize(1);
    const ParameterArena arena(layer.parameters(), device);
    const Tensor x = copied(random_tensor({9, 4, 5}, 2), device);
    Tensor whole, carried;
    const Tensor y = layer(x, whole);
    const Tensor first = layer(x.rows(0, 6), carried), second = layer(x.rows(6, 3), carried);
    expect_close(first, y.rows(0, 6), 1e-6f, "first segment");
    expect_close(second, y.rows(6, 3), 1e-6f, "second segment");
    expect_close(carried, whole, 1e-6f, "h");
    EXPECT_FALSE(carried.node());
  }
}

TEST(Lstm, GradientStopsAtTheInitialStateAndASecondUseAdds) {
  LSTM layer({.in = 3, .hidden = 4});
  layer.initialize(1);
  const Tensor x = random_tensor({2, 3, 3}, 2), dy = random_tensor({2, 3, 4}, 3);
  LSTM::State state;
  layer(random_tensor({5, 3, 3}, 4), state);
  EXPECT_FALSE(state.h.node() || state.c.node());
  LSTM::State copy = state;
  with_upstream(layer(x, copy), dy).backward();
  std::vector<std::vector<float>> once;
  for (const auto& p : layer.parameters()) once.push_back(p->grad().to_vector());
  copy = state;
  with_upstream(layer(x, copy), dy).backward();
  for (std::size_t k = 0; k < once.size(); ++k) {
    const std::vector<float> twice = layer.parameters()[k]->grad().to_vector();
    for (std::size_t i = 0; i < twice.size(); ++i) ASSERT_NEAR(twice[i], 2 * once[k][i], 1e-5f) << k;
  }
}

TEST(Lstm, DropsBetweenLayersInTrainingOnly) {
  const auto outputs = [](float dropout, bool training, std::int64_t first, std::int64_t step) {
    LSTM layer({.in = 3, .hidden = 8, .layers = 3, .dropout = dropout});
    layer.initialize(1);
    layer.train(training);
    const ForwardContext context{.seed = 5, .step = step, .first_sample = first};
    layer.set_context(&context);
    Tensor x = Tensor::empty({4, 2, 3});  // both streams are alike
    const Tensor one = random_tensor({4, 3}, 2);
    for (int t = 0; t < 4; ++t)
      for (int b = 0; b < 2; ++b) std::copy_n(one.data<float>() + 3 * t, 3, x.data<float>() + (2 * t + b) * 3);
    return layer(x).to_vector();
  };
  const auto plain = outputs(0, true, 0, 0), dropped = outputs(0.5f, true, 0, 0);
  EXPECT_NE(plain, dropped);
  EXPECT_EQ(plain, outputs(0.5f, false, 0, 0));
  EXPECT_NE(dropped, outputs(0.5f, true, 0, 1));
  const auto shifted = outputs(0.5f, true, 1, 0);  // stream 1 is now the first row
  for (int t = 0; t < 4; ++t)
    for (std::size_t j = 0; j < 8; ++j)
      EXPECT_FLOAT_EQ(shifted[static_cast<std::size_t>(2 * t) * 8 + j],
                      dropped[static_cast<std::size_t>(2 * t + 1) * 8 + j]);
}

/// What a parameter's listener is told, as "name[first:end]".
struct Listener final : ParameterListener {
  void gradient_ready(Parameter& p, Rows rows) override {
    ready.push_back(text(p, rows));
    const std::vector<float> g = p.grad().rows(rows.first, rows.count).to_vector();
    announced[p.info.name].insert(announced[p.info.name].end(), g.begin(), g.end());
  }
  void before_forward(Parameter& p, Rows rows) override { awaited.push_back(text(p, rows)); }
  static std::string text(const Parameter& p, Rows rows) {
    return concat(p.info.name, "[", rows.first, ":", rows.first + rows.count, "]");
  }
  std::vector<std::string> ready, awaited;
  std::map<std::string, std::vector<float>> announced;
};

TEST(Recurrent, WeightsAreAwaitedAndHandedOverInTheChunksOfThePlan) {
  struct Model final : Module {
    Tensor forward(const Tensor& x) override {
      const Tensor y = (*rnn)((*encoder)(x));
      return (*decoder)(ops::reshape(y, {y.dim(0) * y.dim(1), y.dim(2)}));
    }
    std::shared_ptr<Embedding> encoder = child<Embedding>("encoder", {.vocabulary = 40, .dim = 8});
    std::shared_ptr<LSTM> rnn = child<LSTM>("rnn", {.in = 8, .hidden = 8});
    std::shared_ptr<Linear> decoder = child<Linear>("decoder", {.in = 8, .out = 40, .weight = encoder->weight()});
  };
  const Tensor x = Tensor::of({3, 2}, std::vector<std::int64_t>{39, 0, 17, 20, 17, 3}), dy = random_tensor({6, 40}, 3);
  std::map<std::string, std::vector<float>> whole;
  for (const bool chunks : {false, true}) {
    Model model;
    model.initialize(1);
    ParameterArena arena(model.parameters());
    Listener listener;
    arena.set_listener(&listener);
    if (chunks)
      for (const auto& p : arena.parameters())
        if (p->info.shape.rank() == 2) p->set_chunk_rows(p->info.name == "encoder.weight" ? 16 : 20);
    arena.begin_step();
    arena.backward(with_upstream(model(x), dy));
    arena.finish_gradients();
    for (const auto& p : arena.parameters()) EXPECT_EQ(listener.announced[p->info.name], p->grad().to_vector());
    if (!chunks) {
      whole = listener.announced;
      continue;
    }
    EXPECT_EQ(listener.awaited,
              (std::vector<std::string>{"encoder.weight[0:40]", "rnn.weight_ih_l0[0:20]", "rnn.weight_ih_l0[20:32]",
                                        "rnn.weight_hh_l0[0:32]", "rnn.bias_ih_l0[0:32]", "rnn.bias_hh_l0[0:32]",
                                        "decoder.bias[0:40]", "encoder.weight[0:16]", "encoder.weight[16:32]",
                                        "encoder.weight[32:40]"}));
    EXPECT_EQ(listener.ready,
              (std::vector<std::string>{"decoder.bias[0:40]", "rnn.weight_hh_l0[0:20]", "rnn.weight_hh_l0[20:32]",
                                        "rnn.bias_ih_l0[0:32]", "rnn.bias_hh_l0[0:32]", "rnn.weight_ih_l0[0:20]",
                                        "rnn.weight_ih_l0[20:32]", "encoder.weight[0:16]", "encoder.weight[16:32]",
                                        "encoder.weight[32:40]"}));
    for (const auto& [name, gradient] : whole) {
      const std::vector<float>& g = listener.announced[name];
      ASSERT_EQ(g.size(), gradient.size()) << name;
      for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], gradient[i], 1e-5f) << name << " " << i;
    }
  }
}

template <class M>
void expect_same_on_the_device() {
  const Tensor x = random_tensor({3, 2, 4}, 1), dy = random_tensor({3, 2, 5}, 2);
  std::vector<std::vector<float>> expected;
  for (const Device device : with_cuda({kCpu, kTrap})) {
    M layer({.in = 4, .hidden = 5, .layers = 2, .dropout = 0.5f});
    layer.initialize(1);
    ParameterArena arena(layer.parameters(), device);
    Tensor here = Tensor::empty(x.shape(), DType::f32, device), up = Tensor::empty(dy.shape(), DType::f32, device);
    here.copy_from(x), up.copy_from(dy);
    const Tensor y = layer(here);
    EXPECT_EQ(y.device(), device);
    std::vector<std::vector<float>> outcome = {y.to_vector()};
    with_upstream(y, up).backward();
    for (const auto& p : layer.parameters()) outcome.push_back(p->grad().to_vector());
    if (device == kCpu) expected = outcome;
    if (device == kTrap) {
      EXPECT_EQ(outcome, expected);
    }
    ASSERT_EQ(outcome.size(), expected.size());
    for (std::size_t k = 0; k < outcome.size(); ++k)
      for (std::size_t i = 0; i < outcome[k].size(); ++i)
        EXPECT_NEAR(outcome[k][i], expected[k][i], 1e-5f) << device << " " << k << " " << i;
  }
}

TEST(Recurrent, TouchesTheDevicesMemoryOnlyWhereItMay) {
  expect_same_on_the_device<LSTM>();
  expect_same_on_the_device<GRU>();
  expect_same_on_the_device<RNN>();
}

TEST(Lstm, TellsNamesRolesAndPyTorchsInitialValues) {
  LSTM layer({.in = 3, .hidden = 25, .layers = 2});
  layer.initialize(1);
  std::vector<std::string> names;
  for (const auto& p : layer.named_parameters()) {
    names.push_back(p.name);
    EXPECT_EQ(p.parameter->info.role, p.name.starts_with("weight") ? Role::recurrent : Role::bias);
    float least = 1, largest = -1;
    for (float v : p.parameter->value().to_vector()) least = std::min(least, v), largest = std::max(largest, v);
    // Among 100 even draws from [-0.2, 0.2] one comes near each end, but for a chance of 2e-5.
    EXPECT_TRUE(least >= -0.2f && least < -0.16f && largest > 0.16f && largest <= 0.2f)
        << p.name << ": " << least << " to " << largest;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l1",
                                             "weight_hh_l1", "bias_ih_l1", "bias_hh_l1"}));
  EXPECT_EQ(layer.parameter_count(), 4 * 25 * (3 + 25 + 2) + 4 * 25 * (25 + 25 + 2));
}

TEST(Lstm, SaysWhatDoesNotFit) {
  LSTM layer({.in = 3, .hidden = 4});
  expect_error<ShapeError>([&] { layer(Tensor::zeros({2, 1, 5})); }, {"[2, 1, 5], not [T, B, 3]"});
  LSTM::State state;
  layer(Tensor::zeros({2, 6, 3}), state);
  expect_error<ShapeError>([&] { layer(Tensor::zeros({2, 5, 3}), state); }, {"[1, 6, 4]", "not [1, 5, 4]"});
  EXPECT_THROW(layer(Tensor::zeros({0, 5, 3})), ShapeError);
  EXPECT_THROW(layer(Tensor::zeros({2, 0, 3})), ShapeError);
  EXPECT_THROW(layer(Tensor::zeros({3})), ShapeError);
  EXPECT_THROW(LSTM({.in = 0, .hidden = 4}), ShapeError);
  EXPECT_THROW(LSTM({.in = 1, .hidden = 4, .dropout = 1}), ShapeError);
}

}  // namespace
}  // namespace laconic
