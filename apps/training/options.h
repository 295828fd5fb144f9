#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/training/exchange_settings.h"
#include "apps/training/generate.h"
#include "apps/programs.h"
#include "data/photo_transform.h"
#include "dist/trainer/image_classification.h"
#include "dist/trainer/trainer.h"
#include "layers/models/zoo.h"

namespace laconic {

/// Options that belong together, by one name: what a preset says counts like a default, so that options that are given
/// override it.
struct Preset {
  std::string name;
  std::vector<std::string> words;  ///< of an app's command line
  bool exchange = false;           ///< says how gradients travel; else with which hyper-parameters a model learns
  std::string small{};  ///< the model for programs of small images, where the one in `words` is of ImageNet's
};

/// INCEPTIONN's systems of Fig. 12 (WA, WA+C, INC, INC+C) and the hyper-parameters of its Table I; RedSync as
/// AlexNet-32 learns with it (docs/papers/redsync.md, "What it learns"); nanoGPT's two models of Shakespeare's
/// characters.
const std::vector<Preset>& presets();
/// Those that a list like "WA,INC+C" names, in its order.
/// throws UsageError naming `option`: unknown (suggests the nearest, lists all)
std::vector<const Preset*> presets_named(const std::string& list, const std::string& option);

/// Everything an app can be told. Names are those of the options; what each means stands in --help. What a trainer, a
/// model or a task is told stands where they take it.
struct TrainOptions : ExchangeOptions {
  std::vector<const Preset*> presets;  ///< what they say stands in the other members
  TrainerOptions trainer{};            ///< all that trainer_options() does not settle

  // Model and data
  std::string model;
  bool model_given = false;
  std::string data;  ///< a directory, a file, or "synthetic"
  ModelOptions zoo{};
  ImageClassification::Options images{};
  bool no_augment = false;

  // Photographs
  int image_size = 0;                ///< pixels of a side; 0: the model's own
  PhotoAugment colors{};             ///< --color-jitter
  int max_bad = 0;                   ///< files that may be damaged
  std::string labels;                ///< a file of names of classes
  std::vector<std::string> predict;  ///< files to name instead of training

  // Language models
  std::string tokens;                               ///< what texts are cut into; empty: as the program does
  std::int64_t bptt = 0;                            ///< words of each stream in one step
  int layers = 0, heads = 0, width = 0, block = 0;  ///< of a GPT; 0: the model's own
  std::optional<bool> tied;                         ///< the model's own, unless given
  std::optional<float> dropout;                     ///< likewise
  std::string export_path;                          ///< weights for Hugging Face
  GenerateOptions generate{};

  // Training
  int batch = 0;                    ///< per worker: images, or streams of text
  std::optional<float> lr;          ///< the app's own for sgd, 0.001 for the others, unless given
  std::optional<float> lr_per_256;  ///< what lr follows from: of 256 samples a step; an app has one or the other
  float momentum = 0, weight_decay = 0;
  int repeat = 1;  ///< runs with seeds seed, seed + 1, ...

  // Workers and network
  std::optional<int> workers;  ///< threads of this process; under mpirun the world decides
  int threads = 0;             ///< kernel threads per worker; 0: cores / ranks on this host
  std::string device = "cpu", precision = "fp32";
  bool alone = false;         ///< trains by itself, whatever launcher started it beside others
  bool compute_only = false;  ///< nothing of the exchange
  std::string computing{};                ///< all that was given of what computing takes, in the order of --help
  std::optional<int> type_of_service;     ///< of the packets between MPI processes
  double timeout = 300;                   ///< s

  // Saving
  bool resume = false;
  std::string resume_path;  ///< empty: the newest checkpoint in `save`
  bool eval_only = false;

  std::string command;       ///< as it was typed
  std::string own_settings;  ///< those of the program itself, with their values

  // Output
  std::string log, trace, report, tensorboard;
  double live = 0;  ///< seconds from one page of `report` to the next while it trains; 0: the page is written at the end
  bool quiet = false, json = false, dry_run = false;
};

/// Adds everything that can be set, into `options`, which must outlive it (training_settings.cc).
void add_settings(Settings& settings, TrainOptions& options, const Program& program);

/// What a trainer is told of them; what depends on the machine and the run is the caller's.
TrainerOptions trainer_options(const TrainOptions& options);

/// Reads what the words of a training program's command line give, and the file of options that they name, for another
/// program that starts it. Settings of the program's own are passed over, and so is a file that it will refuse.
class GivenOptions {
 public:
  explicit GivenOptions(const std::vector<std::string>& words);
  /// The text that counts; of a switch "". Nothing: it was not given.   name : without dashes
  std::optional<std::string> value(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
};

/// Parses a command line. Returns nothing if that was all (--help and --version print and are done).
/// Throws UsageError with the text "WHAT (WHERE): WHAT TO DO", naming the nearest option or value if one is near.
std::optional<TrainOptions> parse_options(int argc, const char* const* argv, const Program& program);

}  // namespace laconic
