// Trains small GPTs on any text.
#include "apps/programs.h"

int main(int argc, char** argv) { return laconic::run_program(argc, argv, laconic::gpt_program()); }
