// Trains on MNIST or Fashion-MNIST (28 x 28 grey images, 10 classes).
#include "apps/programs.h"

int main(int argc, char** argv) {
  return laconic::run_program(
      argc, argv,
      {.name = "mnist",
       .summary = "Trains a network on MNIST or Fashion-MNIST.",
       .examples = "Examples:\n"
                   "  mnist --workers 4                       four workers as threads of this process\n"
                   "  mnist --model hdc --optimizer adam --lr 0.001 --batch 128\n"
                   "  laconic launch -n 4 mnist --batch 16    four workers as processes, over MPI",
       .options = "--epochs 10 --batch 64 --lr 0.05 --momentum 0.9 --weight-decay 5e-4 --schedule cosine",
       .models = {"lenet", "hdc", "hdc-2.5mb"},
       .images = "fashion-mnist"});
}
