// Checks the labs of docs/labs, and trains with what they write.
#include <laconic/apps/main.h>
#include <laconic/apps/programs.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "harness.h"

int main(int argc, char** argv) {
  const std::string number = argc > 1 ? argv[1] : "";
  const bool trains = argc > 2 && std::strcmp(argv[2], "train") == 0;
  if (number.size() != 1 || number[0] < '1' || number[0] > '5' || (argc > 2 && !trains)) {
    std::fputs(
        "usage: lab N                  checks what lab N has to fill in, N = 1 to 5\n"
        "       lab N train OPTIONS    trains LeNet with it; --help tells the options\n",
        number == "--help" ? stdout : stderr);
    return number == "--help" ? 0 : 2;
  }
  if (!trains)
    return laconic::run_main([&] {
      int (*const checks[])() = {lab::lab1, lab::lab2, lab::lab3, lab::lab4, lab::lab5};
      return checks[number[0] - '1']();
    });
  lab::add_methods();
  argv[2] = argv[0];
  return laconic::run_program(
      argc - 2, argv + 2,
      {.name = "lab",
       .summary = "Trains LeNet with what a lab writes, or by any other method.",
       .options = "--data synthetic:2000,200 --epochs 1 --batch 16 --lr 0.05 --momentum 0.9 --workers 4 " +
                  (number == "1" ? std::string("--allreduce lab1") : "--sync lab" + number)});
}
