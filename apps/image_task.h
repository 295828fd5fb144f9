#pragma once
#include <map>
#include <memory>
#include <string>

#include "apps/task.h"
#include "data/image_dataset.h"
#include "dist/trainer/image_classification.h"
#include "layers/models/zoo.h"

namespace laconic {

/// What an app that classifies images has of its own.
struct ImageTaskOptions {
  std::function<ImageDataset(const std::string& data)> load;  ///< reads what --data names
  bool crops_and_flips = false;                               ///< augmentation unless --no-augment
  std::map<std::string, std::string> aliases{};               ///< other names of models, as the app takes them
};

/// What all that classify images take from the command line.
ImageClassification::Options classification_options(const TrainOptions& options);

/// A model of the zoo as the command line has it, of so many classes.
ModelOptions model_options(const TrainOptions& options, int classes);

/// Training on images. Workloads throw UsageError where model and data do not fit.
std::unique_ptr<Task> make_image_task(ImageTaskOptions app, const std::string& data);

}  // namespace laconic
