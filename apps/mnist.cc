// Trains on MNIST or Fashion-MNIST (28 x 28 grey images, 10 classes).
#include "apps/programs.h"

int main(int argc, char** argv) { return laconic::run_program(argc, argv, laconic::mnist_program()); }
