#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/options.h"

/// Options of a program that trains LeNet.
namespace laconic::parsed_options {

inline AppDefaults defaults() {
  AppDefaults app;
  app.program = "mnist";
  app.models = {"lenet", "hdc"};
  app.options.model = "lenet";
  app.options.data = "somewhere";
  app.options.epochs = 10;
  app.options.batch = 64;
  app.options.lr = 0.1f;
  return app;
}

inline TrainOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "mnist");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), defaults()).value();
}

inline void expect_refused(std::vector<const char*> arguments, const std::string& sentence) {
  try {
    parse(arguments);
    ADD_FAILURE() << "accepted, but should say: " << sentence;
  } catch (const UsageError& e) {
    EXPECT_EQ(e.what(), sentence);
  }
}

}  // namespace laconic::parsed_options
