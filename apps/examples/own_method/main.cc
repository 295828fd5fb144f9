// A program with a method and a codec of its own: ./own --sync local --every 8 --workers 4 --link 100mbit,1ms
#include <cstdio>
#include <cstring>

#include "apps/programs.h"
#include "compress/conformance.h"
#include "data/mnist.h"
#include "dist/trainer/conformance.h"
#include "int8_codec.h"
#include "local_sgd.h"

int main(int argc, char** argv) {
  laconic::dist::methods().add<own::LocalSgd>("local");
  laconic::compress::codecs().push_back(own::Int8Codec::kind());
  if (argc == 2 && std::strcmp(argv[1], "check") == 0) {
    try {
      laconic::check_method("local", {{"every", "4"}}), laconic::compress::check_codec("int8");
    } catch (const laconic::Error& broken) {
      return std::puts(broken.what()), 1;
    }
    return std::puts("local and int8 keep their promises"), 0;
  }
  return laconic::image_classification(
      argc, argv,
      {.name = "own",
       .summary = "Trains LeNet by a method of its own, or by any other.",
       .options = "--epochs 2 --batch 16 --lr 0.05 --momentum 0.9",
       .load = [](const std::string& data) { return laconic::load_mnist(data); }});
}
