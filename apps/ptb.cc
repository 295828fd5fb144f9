// Trains LSTM language models on the Penn Treebank, WikiText-2, or any text.
#include "apps/language_task.h"
#include "apps/train.h"

int main(int argc, char** argv) { return laconic::train_main(argc, argv, laconic::language_app); }
