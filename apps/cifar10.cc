// Trains on CIFAR-10 (32 x 32 colour images, 10 classes).
#include "apps/programs.h"

int main(int argc, char** argv) {
  return laconic::run_program(
      argc, argv,
      {.name = "cifar10",
       .summary = "Trains a network on CIFAR-10.",
       .examples = "Examples:\n"
                   "  cifar10 --model resnet20 --workers 4    four workers as threads of this process\n"
                   "  cifar10 --model vgg16 --lr 0.05 --schedule warmup:5+cosine --epochs 60\n"
                   "  laconic launch -n 4 cifar10 --batch 32  four workers as processes, over MPI",
       .options = "--epochs 60 --batch 128 --lr 0.1 --momentum 0.9 --weight-decay 5e-4 --schedule warmup:2+cosine",
       .models = {"resnet20", "resnet32", "resnet44", "resnet56", "alexnet", "alexnet-32", "vgg16", "vgg16-32"},
       .aliases = {{"alexnet", "alexnet-32"}, {"vgg16", "vgg16-32"}},
       .images = "cifar-10"});
}
