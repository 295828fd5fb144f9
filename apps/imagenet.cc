// Trains on photographs in folders of classes, such as ImageNet (ILSVRC-2012: 1,281,167 images, 1,000 classes), and
// says what others are.
#include "apps/programs.h"

int main(int argc, char** argv) { return laconic::run_program(argc, argv, laconic::imagenet_program()); }
