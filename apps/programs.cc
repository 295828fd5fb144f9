#include "apps/programs.h"

#include "apps/image_task.h"
#include "apps/text.h"
#include "apps/train.h"

namespace laconic {

int image_classification(int argc, char** argv, const ImageProgram& program) {
  return train_main(argc, argv, [&program] {
    AppDefaults app;
    app.program = program.name, app.description = program.summary, app.footer = program.examples;
    app.models = program.models;
    app.options.model = program.models.at(0);
    app.options.data = program.data;
    app.options.epochs = 10, app.options.batch = 32, app.options.lr = 0.1f;
    app.words = shell_words(program.options, "options of " + program.name);
    app.task = [&program](const TrainOptions& o) {
      return make_image_task(
          {.load = program.load, .crops_and_flips = program.crops_and_flips, .aliases = program.aliases}, o.data);
    };
    return app;
  });
}

}  // namespace laconic
