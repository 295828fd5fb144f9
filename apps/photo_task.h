#pragma once
#include <memory>

#include "apps/options.h"
#include "apps/task.h"

namespace laconic {

/// Training on photographs of any size, from folders, lists or packs. At the end writes labels.txt into --save, the
/// names of the classes, where --predict finds them.
std::unique_ptr<Task> make_photo_task(const TrainOptions& options);

/// What photographs are for a model: the side of the square that it sees, by --image-size or the model itself.
/// throws UsageError: the model takes no colour images
int image_size(const TrainOptions& options);

/// --predict: prints the five most likely classes of each image, by the weights of --init or --resume. Names of classes
/// come from --labels, or labels.txt beside the weights, or the data's own.
/// throws UsageError, DataError   no such model, weights that do not fit it, an image that cannot be decoded
int predict(const TrainOptions& options);

}  // namespace laconic
