// A program with a method, a selector and a codec of its own:
//   ./own --sync peaks --peaks-of 64 --workers 4 --link 100mbit,1ms
//   ./own --sync redsync --selector blocks --workers 4
#include <laconic/apps/programs.h>
#include <laconic/compress/conformance.h>
#include <laconic/dist/trainer/conformance.h>

#include <cstdio>
#include <cstring>

#include "blocks_selector.h"
#include "int8_codec.h"
#include "peaks.h"

int main(int argc, char** argv) {
  laconic::dist::methods().add<own::Peaks>("peaks");
  laconic::compress::selectors().push_back(own::Blocks::kind());
  laconic::compress::codecs().push_back(own::Int8Codec::kind());
  if (argc == 2 && std::strcmp(argv[1], "check") == 0) {
    try {
      laconic::check_method("peaks", {{"peaks-of", "16"}});
      laconic::compress::check_selector("blocks"), laconic::compress::check_codec("int8");
    } catch (const laconic::Error& broken) {
      return std::puts(broken.what()), 1;
    }
    return std::puts("peaks, blocks and int8 keep their promises"), 0;
  }
  return laconic::run_program(argc, argv,
                              {.name = "own",
                               .summary = "Trains LeNet by a method of its own, or by any other.",
                               .options = "--data synthetic --epochs 2 --batch 16 --lr 0.05 --momentum 0.9"});
}
