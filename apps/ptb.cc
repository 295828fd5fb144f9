// Trains LSTM language models on the Penn Treebank, WikiText-2, or any text.
#include "apps/programs.h"

int main(int argc, char** argv) { return laconic::run_program(argc, argv, laconic::language_program()); }
