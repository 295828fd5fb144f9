#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/training/options.h"

/// Options of a program that trains LeNet.
namespace laconic::parsed_options {

inline Program program() {
  return {.name = "mnist",
          .summary = "",
          .options = "--data somewhere --epochs 10 --batch 64 --lr 0.1",
          .models = {"lenet", "hdc"}};
}

inline TrainOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "mnist");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), program()).value();
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
