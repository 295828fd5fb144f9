#include "apps/reproduce/tables.h"

namespace laconic {

const std::vector<PaperTable>& paper_tables() {
  // Figures are those that the papers print; docs/papers has their misprints and what is measured at length.
  static const std::vector<PaperTable> all = {
      {.paper = "redsync",
       .name = "accuracy",
       .title = "Test error of SGD, RGC and qRGC after equal epochs: ResNet-44 on CIFAR-10, 4 workers of 64 images "
                "(Fang et al. 2018, who send 0.1 %)",
       .columns = {"test error %"},
       .rows = {{"SGD", {"7.48"}, ""},
                {"RGC", {"7.17"}, "--sync redsync --density 0.01 --no-mask --warmup dense:1"},
                {"qRGC", {"7.87"}, "--sync redsync --density 0.01 --no-mask --warmup dense:1 --qrgc"}},
       .small = "mnist --model lenet --workers 4 --threads 1 --batch 16 --epochs 3 --lr 0.05 --momentum 0.9 --nesterov "
                "--weight-decay 5e-4 --schedule warmup:1+cosine --link 100mbit,1ms --no-bound",
       .full =
           "cifar10 --model resnet44 --workers 4 --threads 1 --batch 64 --epochs 60 --lr 0.2 --momentum 0.9 --nesterov "
           "--weight-decay 5e-4 --schedule warmup:2+cosine --link 1gbit,50us --no-bound",
       .differs =
           "1 % of the gradients is sent, not 0.1 %, and momentum is not masked: at 0.1 % small models fall behind.\n"
           "At scale small the model is LeNet, on Fashion-MNIST, for 3 epochs."},
      {.paper = "layer-dropping",
       .name = "time",
       .title =
           "Seconds of an iteration with a server, at 1 Gb/s, with layer dropping and without: ResNet-50 on ImageNet "
           "(Table 1)",
       .columns = {"worker s", "server s", "communication s", "total s"},
       .rows = {{"without", {"0.388", "0.073", "3.457", "3.918"}, "--sync ps"},
                {"with layer dropping",
                 {"0.408", "0.085", "0.182", "0.675"},
                 "--sync layerdrop --layerdrop-unit rows --drop-ratio 0.97"}},
       .small = "mnist --model lenet --workers 2 --servers 1 --threads 1 --batch 32 --epochs 1 --lr 0.05 --momentum "
                "0.9 --nesterov "
                "--schedule cosine --link 50mbit,1ms --no-bound",
       .full = "imagenet --model resnet50 --workers 4 --servers 1 --batch 32 --epochs 90 --link 1gbit,50us --no-bound",
       .differs = "The paper prints no drop ratio; 0.97 drops about as many bytes.\n"
                  "At scale small the model is LeNet, on Fashion-MNIST, for an epoch, at 50 Mb/s; large matrices are "
                  "dropped by rows.\n"
                  "The server computes while workers wait, so its time is a part of ours that is exposed."},
      {.paper = "hybrid-allreduce",
       .name = "time",
       .title = "Time of training AlexNet on CIFAR-10, 4 nodes, 1 Gb/s, against a ring of every layer after the "
                "backward pass "
                "(section 4)",
       .columns = {"time against PyTorch, batch 128 … 512"},
       .rows = {{"rings after backward", {"1"}, "--allreduce ring --overlap none"},
                {"rings, overlapped", {"–"}, "--allreduce ring"},
                {"hybrid, overlapped", {"0.92 … 0.67"}, "--allreduce hybrid"}},
       .small =
           "cifar10 --model alexnet-32 --data synthetic:3840,16 --workers 4 --threads 1 --batch 32 --steps 6 --lr 0.01 "
           "--eval-every 0 --link 1gbit,50us --no-bound",
       .full = "cifar10 --model alexnet-32 --workers 4 --threads 1 --batch 128 --epochs 100 --lr 0.04 --momentum 0.9 "
               "--link "
               "1gbit,50us --no-bound",
       .differs = "AlexNet-32 has 23 million parameters, the paper's AlexNet 62 million, for enlarged images.\n"
                  "All three sum the same gradients, so they learn alike: at scale small they are only timed."},
      {.paper = "slim-dp",
       .name = "saving",
       .title =
           "Communication time that is saved against sending everything, 4 workers: GoogLeNet and VGG-16 on ImageNet "
           "(Table 2)",
       .columns = {"GoogLeNet, saved %", "VGG-16, saved %"},
       .rows = {{"Plump-DP", {"0", "0"}, "--sync ps"},
                {"Quant-DP", {"47.85", "63.05"}, "--sync ps --codec qsgd:8:512"},
                {"Slim-DP", {"55.12", "71.15"}, "--sync slimdp --alpha 0.3 --explore 0.15 --reduce sum --lr 0.025"}},
       .small = "mnist --model lenet --workers 4 --servers 1 --threads 1 --batch 16 --epochs 1 --lr 0.05 --momentum "
                "0.9 --nesterov "
                "--weight-decay 5e-4 --schedule cosine --link 100mbit,1ms --no-bound",
       .full = "cifar10 --model resnet20 --workers 4 --servers 1 --threads 1 --batch 32 --epochs 30 --lr 0.05 "
               "--momentum 0.9 "
               "--nesterov --weight-decay 5e-4 --schedule warmup:1+cosine --link 100mbit,1ms --no-bound",
       .differs = "Slim-DP sums what workers have changed, as the paper does; so its rate is half of the others'.\n"
                  "Shares are 0.3 and 0.15, the paper's for GoogLeNet. For VGG-16 it has 0.2 and 0.1.\n"
                  "At scale small the model is LeNet, on Fashion-MNIST, for an epoch."},
      {.paper = "inceptionn",
       .name = "systems",
       .title =
           "Communication time of four systems against a worker-aggregator: HDC and three CNNs, 10 Gb/s (Figure 12)",
       .columns = {"communication saved %"},
       .rows = {{"WA", {"0"}, "--preset WA"},
                {"WA+C", {"30.8"}, "--preset WA+C"},
                {"INC", {"36 … 58"}, "--preset INC"},
                {"INC+C", {"70.9 … 80.7"}, "--preset INC+C"}},
       .small = "mnist --model hdc --workers 4 --threads 1 --batch 25 --steps 300 --lr 0.05 --momentum 0.9 "
                "--weight-decay 5e-5 --link "
                "500mbit,50us --no-bound",
       .full = "mnist --preset inceptionn-hdc --workers 4 --threads 1 --link 1gbit,50us --no-bound",
       .differs = "The codec runs on the processor, not in a network card; the paper's times with C are computed, not "
                  "measured.\n"
                  "The link is slower than 10 Gb/s, because the machine is.\n"
                  "At scale small HDC is trained for 300 steps."}};
  return all;
}

}  // namespace laconic
