// Every operation on tensors: against what PyTorch computed (tests/golden/operations.py, whose expressions name them
// here), and by finite differences; on the CPU, and on a CUDA device if there is one.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/function.h"
#include "core/ops/functions.h"
#include "core/ops/losses.h"
#include "core/ops/linear.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "core/raw.h"
#include "core/state.h"
#include "tests/on_both.h"
#include "tests/patterns.h"

namespace laconic {
namespace {

using Tensors = std::vector<Tensor>;
using Operation = std::function<Tensor(const Tensors& t, const Tensor& index)>;

std::map<std::string, Operation> all_operations() {
  std::map<std::string, Operation> all;
  const auto one = [&](const std::string& name, Tensor (*f)(const Tensor&)) {
    all[name] = [f](const Tensors& t, const Tensor&) { return f(t[0]); };
  };
  const auto two = [&](const std::string& name, Tensor (*f)(const Tensor&, const Tensor&)) {
    all[name] = [f](const Tensors& t, const Tensor&) { return f(t[0], t[1]); };
  };
  const auto any = [&](const std::string& name, std::function<Tensor(const Tensors&)> f) {
    all[name] = [f = std::move(f)](const Tensors& t, const Tensor&) { return f(t); };
  };
  one("torch.relu(x)", relu), one("torch.abs(x)", abs), one("torch.exp(x)", exp), one("torch.tanh(x)", tanh);
  one("torch.sigmoid(x)", sigmoid), one("F.silu(x)", silu), one("F.gelu(x)", gelu), one("torch.sqrt(x)", sqrt);
  one("torch.log(x)", log);
  any("F.leaky_relu(x, 0.1)", [](const Tensors& t) { return leaky_relu(t[0], 0.1f); });
  any("torch.clamp(x, -0.2, 0.3)", [](const Tensors& t) { return clamp(t[0], -0.2f, 0.3f); });
  any("-x", [](const Tensors& t) { return -t[0]; });
  any("x + 2", [](const Tensors& t) { return t[0] + 2.0f; });
  any("2 - x", [](const Tensors& t) { return 2.0f - t[0]; });
  any("3 * x", [](const Tensors& t) { return 3.0f * t[0]; });
  any("x / 4", [](const Tensors& t) { return t[0] / 4.0f; });
  any("1 / x", [](const Tensors& t) { return 1.0f / t[0]; });
  any("x ** 2", [](const Tensors& t) { return pow(t[0], 2); });
  any("x ** 2.5", [](const Tensors& t) { return pow(t[0], 2.5f); });

  two("x + y", add), two("x - y", subtract), two("x * y", multiply), two("x / y", divide), two("x ** y", pow);
  any("torch.maximum(x, y + 0.01)", [](const Tensors& t) { return maximum(t[0], t[1] + 0.01f); });
  any("torch.minimum(x, y + 0.01)", [](const Tensors& t) { return minimum(t[0], t[1] + 0.01f); });
  any("torch.where(x < y + 0.01, 2 * x, y)",
      [](const Tensors& t) { return where(t[0] < t[1] + 0.01f, 2.0f * t[0], t[1]); });
  any("x * x + x", [](const Tensors& t) { return t[0] * t[0] + t[0]; });
  any("torch.where(x > 0, x * y, z)", [](const Tensors& t) { return where(t[0] > 0.0f, t[0] * t[1], t[2]); });
  any("x < y", [](const Tensors& t) { return to_float(t[0] < t[1]); });
  any("x <= y", [](const Tensors& t) { return to_float(t[0] <= t[1]); });
  any("x > y", [](const Tensors& t) { return to_float(t[0] > t[1]); });
  any("x >= y", [](const Tensors& t) { return to_float(t[0] >= t[1]); });
  any("x == y", [](const Tensors& t) { return to_float(equal(t[0], t[1])); });
  any("x != y", [](const Tensors& t) { return to_float(not_equal(t[0], t[1])); });
  any("x > 0.1", [](const Tensors& t) { return to_float(t[0] > 0.1f); });
  any("x < 0.1", [](const Tensors& t) { return to_float(t[0] < 0.1f); });

  const std::map<std::string, std::vector<int>> dimensions{{"(0,)", {0}},      {"(1,)", {1}},
                                                           {"(-1,)", {-1}},    {"(0, 1)", {0, 1}},
                                                           {"(0, 2)", {0, 2}}, {"(2, 1, 0)", {2, 1, 0}},
                                                           {"(1, 2)", {1, 2}}};
  for (const bool keep : {false, true})
    for (const auto& [name, dims] : dimensions) {
      const std::string rest = concat("(x, ", name, ", keepdim=", keep ? "True)" : "False)");
      any("torch.sum" + rest, [=, d = dims](const Tensors& t) { return sum(t[0], d, keep); });
      any("torch.mean" + rest, [=, d = dims](const Tensors& t) { return mean(t[0], d, keep); });
      any("torch.var" + rest, [=, d = dims](const Tensors& t) { return var(t[0], d, true, keep); });
    }
  any("torch.var(x, (0, 2), unbiased=False)", [](const Tensors& t) { return var(t[0], {0, 2}, false); });
  any("torch.sum(x, (0, 2, 4))", [](const Tensors& t) { return sum(t[0], {0, 2, 4}); });
  for (const int dim : {0, 1, -1}) {
    any(concat("torch.amax(x, ", dim, ")"), [=](const Tensors& t) { return max(t[0], dim); });
    any(concat("torch.amin(x, ", dim, ", keepdim=True)"), [=](const Tensors& t) { return min(t[0], dim, true); });
    any(concat("torch.argmax(x, ", dim, ")"), [=](const Tensors& t) { return argmax(t[0], dim); });
    any(concat("torch.argmin(x, ", dim, ")"), [=](const Tensors& t) { return argmin(t[0], dim); });
    any(concat("torch.softmax(x, ", dim, ")"), [=](const Tensors& t) { return softmax(t[0], dim); });
    any(concat("torch.log_softmax(x, ", dim, ")"), [=](const Tensors& t) { return log_softmax(t[0], dim); });
    any(concat("x.narrow(", dim, ", 1, 1) + x.narrow(", dim, ", 0, 2)"),
        [=](const Tensors& t) { return slice(t[0], dim, 1, 2) + slice(t[0], dim, 0, 2); });
    any(concat("x.select(", dim, ", -1)"), [=](const Tensors& t) { return select(t[0], dim, -1); });
    any(concat("torch.cat((x, y, x), ", dim, ")"), [=](const Tensors& t) { return cat({t[0], t[1], t[0]}, dim); });
    any(concat("torch.stack((x, y), ", dim, ")"), [=](const Tensors& t) { return stack({t[0], t[1]}, dim); });
    any(concat("x.split(2, ", dim, ")[-1]"), [=](const Tensors& t) { return split(t[0], 2, dim).back(); });
    any(concat("x.flip(", dim, ")"), [=](const Tensors& t) { return flip(t[0], dim); });
    all[concat("x.index_select(", dim, ", index)")] = [=](const Tensors& t, const Tensor& index) {
      return index_select(t[0], dim, index);
    };
    all[concat("x.gather(", dim, ", index)")] = [=](const Tensors& t, const Tensor& index) {
      return gather(t[0], dim < 0 ? 2 : dim, index);
    };
  }
  all.erase("x.gather(1, index)");
  all["x.gather(2, index)"] = all.extract("x.gather(-1, index)").mapped();
  one("torch.sum(x)", sum), one("torch.mean(x)", mean), one("torch.amax(x)", max), one("torch.amin(x)", min);

  any("x.view(4, -1) * x.view(4, 6)", [](const Tensors& t) { return t[0].view({4, -1}) * t[0].view({4, 6}); });
  any("x[1:2] * x[0:1]", [](const Tensors& t) { return t[0].rows(1, 1) * t[0].rows(0, 1); });
  any("x.flatten()[3:8] * x.flatten()[4:9]", [](const Tensors& t) { return t[0].range(3, 5) * t[0].range(4, 5); });
  any("x.reshape(-1, 2)", [](const Tensors& t) { return reshape(t[0], {-1, 2}); });
  any("x.unsqueeze(1).squeeze(1) * x.unsqueeze(-1)",
      [](const Tensors& t) { return squeeze(unsqueeze(t[0], 1), 1) * unsqueeze(t[0], -1); });
  any("x.permute(2, 0, 1)", [](const Tensors& t) { return permute(t[0], {2, 0, 1}); });
  any("x.permute(3, 1, 0, 2)", [](const Tensors& t) { return permute(t[0], {3, 1, 0, 2}); });
  for (const auto& [a, b] : {std::pair{0, 1}, {1, 2}, {0, -1}, {1, 1}})
    any(concat("x.transpose(", a, ", ", b, ")"), [a = a, b = b](const Tensors& t) { return transpose(t[0], a, b); });
  any("x.expand(2, 3, 4)", [](const Tensors& t) { return expand(t[0], {2, 3, 4}); });
  any("x.expand(4, 2, 3)", [](const Tensors& t) { return expand(t[0], {4, 2, 3}); });
  any("x.transpose(0, 1).reshape(4, 3).transpose(0, 1) * x.view(3, 4)", [](const Tensors& t) {
    return transpose(reshape(transpose(t[0], 0, 1), {4, 3}), 0, 1) * t[0].view({3, 4});
  });
  any("torch.cat((x, y), 1)", [](const Tensors& t) { return cat(t, 1); });
  all["F.one_hot(index, 4) + x"] = [](const Tensors& t, const Tensor& index) { return one_hot(index, 4) + t[0]; };

  two("x @ y", matmul);
  any("torch.softmax(x @ y.transpose(-2, -1) / 2, -1) @ z",
      [](const Tensors& t) { return matmul(softmax(matmul(t[0], transpose(t[1], -2, -1)) / 2.0f), t[2]); });

  all["F.nll_loss(torch.log_softmax(x, 1), index)"] = [](const Tensors& t, const Tensor& index) {
    return nll(log_softmax(t[0], 1), index);
  };
  all["F.cross_entropy(x, index)"] = [](const Tensors& t, const Tensor& index) { return cross_entropy(t[0], index); };
  all["F.cross_entropy(x, index, label_smoothing=0.2)"] = [](const Tensors& t, const Tensor& index) {
    return cross_entropy(t[0], index, 0.2f);
  };
  two("F.mse_loss(x, y)", mse);
  any("F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3))",
      [](const Tensors& t) { return bce_with_logits(t[0], Tensor::full(t[0].shape(), 0.3f, t[0].device())); });
  return all;
}

std::vector<Device> tested_devices() {
  std::vector<Device> devices{kCpu};
  if (cuda_devices() > 0) devices.push_back(kCuda);
  return devices;
}

TEST(Operations, GiveWhatPyTorchGivesAndTheirGradientsAreThoseOfDifferences) {
  const auto all = all_operations();
  const StateDict file = load_safetensors(std::string(LACONIC_SOURCE) + "/tests/golden/operations.safetensors");
  const auto cases = nlohmann::json::parse(file.text("cases"));
  std::set<std::string> seen;
  const std::vector<Device> devices = tested_devices();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = cases[i];
    SCOPED_TRACE(concat("case ", i, ": ", name));
    ASSERT_TRUE(all.contains(name));
    seen.insert(name);
    const Operation& f = all.at(name);
    const auto of_case = [&](const std::string& what) { return file.find(concat(i, ".", what)); };
    Tensors inputs;
    std::string names;
    for (const char* input : {"x", "y", "z"})
      if (const Tensor* t = of_case(input)) inputs.push_back(*t), names += input;
    const Tensor* const index = of_case("index");
    const auto at = [&](const Tensors& t) { return f(t, index ? copied(*index, t[0].device()) : Tensor()); };

    for (const Device device : devices) {
      SCOPED_TRACE(concat("on ", device));
      std::vector<std::shared_ptr<Leaf>> leaves;
      Tensors x;
      for (const Tensor& t : inputs) {
        leaves.push_back(std::make_shared<Leaf>());
        x.push_back(with_gradient(copied(t, device), leaves.back()));
      }
      const Tensor y = at(x), &expected = *of_case("result");
      EXPECT_EQ(y.device(), device);
      if (expected.rank() > 0) {  // what reduces everything gives [1] here
        ASSERT_EQ(y.shape(), expected.shape());
      }
      expect_close(y, expected.view(y.shape()), 2e-6f, "result");
      const Tensor* const above = of_case("above");
      ASSERT_EQ(y.node() != nullptr, above != nullptr);
      if (!above) continue;
      with_upstream(y, copied(above->view(y.shape()), device)).backward();
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        ASSERT_TRUE(leaves[k]->grad.defined());
        expect_close(leaves[k]->grad, *of_case(concat("d", names[k])), 5e-6f, "gradient");
      }
    }
    if (of_case("above")) {
      EXPECT_NO_THROW(gradcheck(at, inputs));
      expect_near_in_bf16(at, inputs);
    }
    // Each operand in turn a ghost: so is the result, and nothing reads memory that is not there.
    for (std::size_t g = 0; g < inputs.size() + (index ? 1 : 0); ++g) {
      const std::string operand = g < inputs.size() ? std::string(1, names[g]) : "index";
      if (found_in(name, "\\b" + operand + "\\b").empty()) continue;
      SCOPED_TRACE(operand + " is a ghost");
      Tensors x;
      for (std::size_t k = 0; k < inputs.size(); ++k)
        x.push_back(with_gradient(k == g ? copied(inputs[k], kGhost) : inputs[k], std::make_shared<Leaf>()));
      const Tensor y = f(x, index && g == inputs.size() ? copied(*index, kGhost) : index ? *index : Tensor());
      EXPECT_EQ(y.device(), kGhost);
      EXPECT_EQ(y.elements(), of_case("result")->elements());
      EXPECT_EQ(y.to_vector(), std::vector<float>(static_cast<std::size_t>(y.elements())));
      if (of_case("above")) with_upstream(y, copied(of_case("above")->view(y.shape()), kGhost)).backward();
    }
  }
  for (const auto& [name, f] : all) EXPECT_TRUE(seen.contains(name)) << name << " has no case";
}

TEST(Operations, LogSoftmaxOfLargeNumbersKeepsItsDigits) {
  const std::vector<float> y =
      log_softmax(Tensor::of({1, 3}, std::vector<float>{10000, 10001, 9999.5f}), 1).to_vector();
  const double sum = std::log(1 + std::exp(1.0) + std::exp(-0.5));
  EXPECT_NEAR(y[0], -sum, 1e-6);
  EXPECT_NEAR(y[1], 1 - sum, 1e-6);
  EXPECT_NEAR(y[2], -0.5 - sum, 1e-6);
}

// Where it meets gradients that have values, nothing is added, and nothing is read of it.
TEST(Operations, AGhostsGradientIsZero) {
  const auto leaf = std::make_shared<Leaf>();
  const Tensor x = with_gradient(Tensor::of({2}, {1, 2}), leaf), ghost = Tensor::empty({2}, DType::f32, kGhost);
  sum(x * ghost + x * x).backward();
  EXPECT_EQ(leaf->grad.to_vector(), (std::vector<float>{0, 0})) << "all of the sum is a ghost";
  leaf->grad = {}, leaf->written = false;
  const Tensor y = 2.0f * x, both = cat({sum(y * y), sum(y * ghost)}, 0);
  sum(both).backward();
  EXPECT_EQ(leaf->grad.elements(), 2);
}

TEST(Operations, SumsInFrontOfAnEmptyDimensionTouchNothing) {
  const Tensor beside = Tensor::full({16}, 7.0f), y = sum(Tensor::empty({4, 3, 0}, DType::f32), {1});
  EXPECT_EQ(y.shape(), (Shape{4, 0}));
  EXPECT_EQ(beside.to_vector(), std::vector<float>(16, 7.0f));
}

TEST(Operations, AProductOverNothingIsZero) {
  const Tensor a = Tensor::zeros({2, 0}), b = Tensor::zeros({0, 3});
  EXPECT_EQ(matmul(a, b).to_vector(), std::vector<float>(6, 0));
  EXPECT_EQ(matmul(Tensor::zeros({4, 2, 0}), Tensor::zeros({4, 0, 3})).to_vector(), std::vector<float>(24, 0));
  EXPECT_EQ(matmul(Tensor::zeros({4, 2, 0}), b).to_vector(), std::vector<float>(24, 0));
}

/// The sentence that f is refused with.
std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(Operations, SayWhatIsWrong) {
  const Tensor x = random_tensor({2, 3}, 1), y = random_tensor({4}, 2);
  const Tensor index = Tensor::of({2}, std::vector<std::int64_t>{0, 3});
  const auto has_history = [](const Tensor& t) { return with_gradient(t, std::make_shared<Leaf>()); };
  const std::vector<std::pair<std::function<void()>, std::string>> wrong{
      {[&] { x + y; },
       "add: [2, 3] and [4] do not broadcast: from the right, extents must be equal, or one of them 1."},
      {[&] { where(x > 0.0f, x, y); }, "where: [2, 3] and [4] do not broadcast"},
      {[&] { where(x, x, x); }, "where: the condition is float32, not what a comparison gives (uint8)."},
      {[&] { exp(index); }, "exp: x [2] is int64, and only float32 is computed with: to_float(x) makes it that."},
      {[&] {
         x* one_hot(index, 4).rows(0, 1).view({2, 2});
       },
       "multiply: [2, 3] and [2, 2] do not broadcast"},
      {[&] { sum(index); }, "sum: x [2] is int64"},
      {[&] { matmul(index, y); }, "matmul: x [2] is int64"},
      {[&] { matmul(x, x); }, "matmul: a [2, 3] and b [2, 3]: a's rows and b's columns differ in length."},
      {[&] { matmul(Tensor::full({}, 1), x); }, "matmul: a [] and b [2, 3]: a number is no matrix."},
      {[&] {
         x.view({4, 2});
       },
       "view: [2, 3] has 6 elements, [4, 2] has 8."},
      {[&] {
         reshape(x, {4, -1});
       },
       "reshape: x [2, 3] has 6 elements, which leave nothing whole for -1."},
      {[&] { transpose(x, 0, 2); }, "transpose: x [2, 3] has no dimension 2."},
      {[&] {
         permute(x, {0, 0});
       },
       "permute: every dimension of x [2, 3] must be named once."},
      {[&] {
         permute(x, {0, 1, 0, 1, 0, 1, 0});
       },
       "permute: every dimension of x [2, 3] must be named once."},
      {[&] {
         expand(x, {3, 3});
       },
       "expand: [2, 3] and [3, 3] do not broadcast"},
      {[&] { expand(x, {3}); }, "expand: x [2, 3] does not broadcast to [3]."},
      {[&] { slice(x, 1, 2, 4); }, "slice: [2, 4) is not inside dimension 1 of x [2, 3]."},
      {[&] { select(x, 0, 2); }, "select: dimension 0 of x [2, 3] has no place 2."},
      {[&] { squeeze(x, 0); }, "squeeze: dimension 0 of x [2, 3] is not 1."},
      {[&] {
         cat({x, y}, 0);
       },
       "cat: [2, 3] and [4] differ in more than dimension 0."},
      {[&] {
         cat({x, Tensor::zeros({2, 3}, DType::i64)});
       },
       "cat: float32 and int64 cannot stand in one tensor."},
      {[&] { cat({}); }, "cat: nothing to join."},
      {[&] { split(x, 0); }, "split: parts of 0 of x [2, 3]."},
      {[&] { index_select(x, 0, index); }, "index_select: index 3 is outside of 2 places of x [2, 3]."},
      {[&] { index_select(x, 0, y); }, "index_select: the indices are float32 [4], not int64 [n]."},
      {[&] {
         gather(x, 1, index.view({2, 1}));
       },
       "gather: index 3 is outside of dimension 1 of x [2, 3]."},
      {[&] {
         gather(x, 1, index.view({1, 2, 1}));
       },
       "gather: x [2, 3] has no place for indices [1, 2, 1]."},
      {[&] { one_hot(index, 3); }, "one_hot: index 3 is outside of 3 classes."},
      {[&] { one_hot(y, 3); }, "one_hot: the indices are float32, not int64."},
      {[&] {
         sum(x, {0, -2});
       },
       "sum: a dimension is named twice."},
      {[&] {
         max(Tensor::zeros({0, 3}), 0);
       },
       "max: x [0, 3] has nothing along dimension 0."},
      {[&] {
         mean(Tensor::zeros({0, 3}), {0});
       },
       "mean: x [0, 3] has nothing to average there."},
      {[&] {
         var(Tensor::zeros({1, 3}), {0});
       },
       "var: x [1, 3] has 1 values there, not two."},
      {[&] { bce_with_logits(x, y); },
       "bce_with_logits: logits are [2, 3] and targets [4]; they must be the same, and not empty."},
      {[&] { (has_history(x) * 2.0f).copy_from(x); },
       "copy: the tensor [2, 3] was made by 'multiply_by', whose gradient would be of other values. Write into its "
       "value(), or into a copy."},
      {[&] { has_history(x).rows(0, 1).copy_from(x.rows(1, 1)); }, "copy: the tensor [1, 3] was made by 'rows'"},
      {[&] { (has_history(x) + x).backward(); }, "backward: the loss has shape [2, 3], not one element."},
      {[&] { sum(x).backward(); }, "backward: the loss has no history."},
      {[&] {
         const Tensor loss = sum(has_history(x) * x);
         loss.backward(), loss.backward();
       },
       "backward: the graph of 'sum' was already used and freed."},
      {[&] {
         const Tensor factor = Tensor::full({2, 3}, 2.0f), loss = sum(has_history(x) * factor);
         factor.rows(1, 1).copy_from(x.rows(0, 1));
         loss.backward();
       },
       "backward: input 1 of 'multiply' was written since the forward pass. Write into a copy instead."},
      {[&] {
         const Tensor factor = Tensor::full({2, 3}, 2.0f), loss = sum(has_history(x) * factor);
         raw::fill(factor, 1.0f);
         loss.backward();
       },
       "backward: input 1 of 'multiply' was written since the forward pass."},
      {[&] {
         const Tensor input = Tensor::full({2, 3}, 2.0f), w = has_history(x);
         const Tensor loss = sum(checkpoint(input, [&](const Tensor& in) { return w * (in * 2.0f); }));
         input.copy_from(x);
         loss.backward();
       },
       "backward: input 1 of 'checkpoint' was written since the forward pass."},
  };
  for (const auto& [f, sentence] : wrong) EXPECT_EQ(refusal(f).substr(0, sentence.size()), sentence);
}

/// As PyTorch has it: x^0 stays 1 and 0^y stays 0, so nothing is divided by 0.
TEST(Operations, PowersAtZeroHaveGradients) {
  const auto gradients = [](const Tensor& a, const Tensor& b) {
    const auto of_a = std::make_shared<Leaf>(), of_b = std::make_shared<Leaf>();
    sum(pow(with_gradient(a, of_a), with_gradient(b, of_b))).backward();
    return std::pair{of_a->grad.to_vector(), of_b->grad.to_vector()};
  };
  const auto [da, db] = gradients(Tensor::of({4}, {0, 0, 2, 0}), Tensor::of({4}, {0, 2, 0, 1}));
  EXPECT_EQ(da, (std::vector<float>{0, 0, 0, 1}));
  EXPECT_EQ(std::vector(db.begin(), db.begin() + 2), (std::vector<float>{0, 0}));
  EXPECT_FLOAT_EQ(db[2], std::log(2.0f));
  EXPECT_EQ(db[3], 0);
  const auto leaf = std::make_shared<Leaf>();
  sum(pow(with_gradient(Tensor::of({2}, {0, 3}), leaf), 0.0f)).backward();
  EXPECT_EQ(leaf->grad.to_vector(), (std::vector<float>{0, 0}));
}

TEST(Operations, CopyWholeNumbersToo) {
  const Tensor x = Tensor::of({2, 3}, std::vector<std::int64_t>{1, -2, 3, std::int64_t{1} << 40, 5, -6});
  const auto numbers = [](const Tensor& t) {
    return std::vector<std::int64_t>(t.data<std::int64_t>(), t.data<std::int64_t>() + t.elements());
  };
  EXPECT_EQ(numbers(transpose(x, 0, 1)), (std::vector<std::int64_t>{1, std::int64_t{1} << 40, -2, 5, 3, -6}));
  EXPECT_EQ(numbers(select(x, 1, 1)), (std::vector<std::int64_t>{-2, 5}));
  EXPECT_EQ(numbers(flip(x, 1)), (std::vector<std::int64_t>{3, -2, 1, -6, 5, std::int64_t{1} << 40}));
  EXPECT_EQ(numbers(cat({slice(x, 1, 0, 1), slice(x, 1, 2, 3)}, 1)),
            (std::vector<std::int64_t>{1, 3, std::int64_t{1} << 40, -6}));
  EXPECT_EQ(numbers(expand(x.rows(0, 1), {2, 3})), (std::vector<std::int64_t>{1, -2, 3, 1, -2, 3}));
  EXPECT_EQ(to_float(x).to_vector()[4], 5.0f);
  for (const Device device : tested_devices()) {
    const Tensor bytes = Tensor::empty({3}, DType::u8);
    for (const int i : {0, 1, 2}) bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(100 * i);
    EXPECT_EQ(to_float(copied(bytes, device)).to_vector(), (std::vector<float>{0, 100, 200})) << device;
  }
}

struct Cube {  // of which the caller says the scale
  float scale = 1;
  Tensor x{};
  Tensor forward(const Tensor& in) { return x = in, scale * x * x * x; }
  Tensor backward(const Tensor& dy) { return dy * (3.0f * scale * x * x); }
};
struct Difference {  // with a gradient for each input, one of them wrong if asked
  bool wrong = false;
  Tensor forward(const Tensor& a, const Tensor& b) { return a - b; }
  std::vector<Tensor> backward(const Tensor& dy) { return {dy, wrong ? dy : -dy}; }
};
struct Misfit {
  Tensor forward(const Tensor& x) { return x; }
  Tensor backward(const Tensor& dy) { return sum(dy); }
};

TEST(Function, HasTheDerivativeThatItSays) {
  const std::vector<Tensor> one{random_tensor({3, 2}, 1)}, two{random_tensor({3, 2}, 1), random_tensor({3, 2}, 2)};
  EXPECT_NO_THROW(gradcheck([](const auto& t) { return recorded(Cube{.scale = 0.5f}, t[0]) + t[0]; }, one));
  EXPECT_NO_THROW(gradcheck([](const auto& t) { return recorded(Difference{}, t[0], t[1] * t[0]); }, two));
  const std::string sentence =
      refusal([&] { gradcheck([](const auto& t) { return recorded(Difference{true}, t[0], t[1]); }, two); });
  EXPECT_EQ(sentence.rfind("gradcheck: the gradient of input 1 at element 0 is ", 0), 0u) << sentence;
  EXPECT_EQ(refusal([&] { gradcheck([](const auto& t) { return recorded(Misfit{}, t[0]); }, one); }),
            "function: backward gave [1] as the gradient of input 0, which is [3, 2].");
  EXPECT_EQ(refusal([&] { gradcheck([](const auto& t) { return t[0].value(); }, one); }),
            "gradcheck: the result has no history. Were its inputs used?");
}

}  // namespace
}  // namespace laconic
