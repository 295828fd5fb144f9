// Trains on CIFAR-10 (32 x 32 colour images, 10 classes).
#include "apps/programs.h"

int main(int argc, char** argv) { return laconic::run_program(argc, argv, laconic::cifar10_program()); }
