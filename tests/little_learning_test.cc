// What sends little learns about as much as dense training: LeNet on generated digits.
#include "data/synthetic.h"
#include "layers/models/zoo.h"
#include "tests/training.h"

namespace laconic {
namespace {

struct LittleCase {
  const char* sync;
  std::vector<std::pair<std::string, std::string>> settings;
  const char* codec;
  double lr = 0.02, momentum = 0.9;
  const char* optimizer = "sgd";
};

double last_loss(const LittleCase& c) {
  Recipe recipe([] { return make_model("lenet"); }, 2);
  recipe.data = std::make_shared<const ImageDataset>(synthetic_mnist({640, 200}));
  recipe.trainer.audit_every = 0;
  recipe.trainer.epochs = 8;
  recipe.trainer.lr = c.lr;
  recipe.trainer.optimizer.name = c.optimizer, recipe.trainer.optimizer.momentum = c.momentum;
  recipe.sync = c.sync, recipe.settings = c.settings, recipe.trainer.plan.codec = c.codec;
  return train(recipe).evals.back().loss;
}

TEST(WhatSendsLittle, LearnsAsDenseTraining) {
  const double dense = last_loss({"allreduce", {}, "none"});
  EXPECT_LT(dense, 0.3) << "or this would prove nothing";
  for (const LittleCase& c : {LittleCase{"powersgd", {{"rank", "2"}}, "none"},
                              {"signsgd", {}, "none"},
                              {"demo", {}, "none", 0.002, 0},
                              {"onebit-adam", {{"onebit-warmup", "30"}}, "none", 0.001, 0, "adam"},
                              {"ef21", {{"density", "0.1"}}, "none", 0.3, 0},
                              {"allreduce", {}, "natural"},
                              {"allreduce", {}, "groupq:5:32"}})
    EXPECT_LT(last_loss(c), 2 * dense + 0.2) << c.sync << ", " << c.codec << ", where dense ends at " << dense;
}

}  // namespace
}  // namespace laconic
