// Trains LSTM language models on the Penn Treebank, WikiText-2, or any text.
#include "apps/language_task.h"
#include "apps/main.h"
#include "apps/train.h"

int main(int argc, char** argv) {
  return laconic::run_main([&] {
    const laconic::AppDefaults app = laconic::language_app();
    const auto options = laconic::parse_options(argc, argv, app);
    return options ? laconic::run_training(*options, app) : 0;
  });
}
