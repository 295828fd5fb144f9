#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/task.h"
#include "dist/trainer/trainer.h"
#include "dist/transport/link.h"

namespace laconic {

/// Everything an app can be told. Names are those of the options; what each means stands in --help.
struct TrainOptions {
  std::vector<std::string> presets;  ///< names; what they say stands in the other members

  // Model and data
  std::string model;
  std::string data;  ///< a directory, a file, or "synthetic"
  std::string init;  ///< weights to start from; empty for random ones
  bool no_shuffle = false, no_augment = false, no_dropout = false;
  bool resnet_v1 = false, auxiliary_heads = false;  ///< ModelOptions

  // Photographs
  int image_size = 0;                 ///< pixels of a side; 0: the model's own
  float brightness = 0, contrast = 0, saturation = 0;  ///< --color-jitter
  int max_bad = 0;                    ///< files that may be damaged
  std::string labels;                 ///< a file of names of classes
  std::vector<std::string> predict;   ///< files to name instead of training

  // Language models
  std::int64_t bptt = 0;         ///< words of each stream in one step
  std::optional<bool> tied;      ///< the model's own, unless given
  std::optional<float> dropout;  ///< likewise
  std::int64_t generate = 0;     ///< words to write at the end
  double temperature = 1;
  std::string prompt;

  // Training
  std::int64_t epochs = 0;
  std::optional<std::int64_t> steps;  ///< counts from the start of training; overrides epochs
  int batch = 0;                      ///< per worker: images, or streams of text
  std::string optimizer = "sgd";      ///< sgd | adam | adamw
  std::optional<float> lr;            ///< the app's own for sgd, 0.001 for the others, unless given
  std::optional<float> lr_per_256;    ///< what lr follows from: of 256 samples a step; an app has one or the other
  float momentum = 0, weight_decay = 0, label_smoothing = 0;
  bool nesterov = false, no_decay_norm_bias = false;
  Clip clip;
  std::string schedule = "const";  ///< the grammar of optim/schedule.h
  int accumulate = 1;
  bool checkpoint_activations = false;
  std::uint64_t seed = 0;
  std::string on_nan = "stop";  ///< stop | skip
  int repeat = 1;               ///< runs with seeds seed, seed + 1, ...

  // Workers and network
  std::optional<int> workers;  ///< threads of this process; under mpirun the world decides
  int threads = 0;             ///< kernel threads per worker; 0: cores / ranks on this host
  int data_threads = 1;
  std::string device = "cpu", precision = "fp32";
  bool alone = false;                                                  ///< computing alone: nothing of the exchange
  std::string sync = "allreduce";                                      ///< a name of dist::methods()
  std::shared_ptr<const dist::Method> method{};                        ///< of that name, as it was set
  std::vector<std::pair<std::string, std::string>> method_settings{};  ///< what is to be set of it, and of others
  std::string computing{};                    ///< all that was given of what computing takes, in the order of --help
  std::optional<int> servers;                 ///< dedicated ranks; 0: the workers serve
  std::int64_t ledger = 0;                    ///< measure where the bytes go every so many steps; 0: never
  dist::PlanOptions plan;                     ///< --allreduce, --fusion, --chunk
  bool codec_feedback = false;         ///< what a rank's encoding loses it adds when it encodes the element again
  std::optional<int> type_of_service;  ///< of the packets between MPI processes
  std::string plan_file;               ///< what travels how, instead of by these
  dist::Overlap overlap = dist::Overlap::forward;
  std::string reduce = "mean";            ///< mean | sum
  std::optional<std::int64_t> audit;      ///< compare checksums over ranks every so many steps
  double timeout = 300;                   ///< s
  std::optional<dist::LinkSpec> link;     ///< emulated between the workers
  std::map<int, dist::LinkSpec> link_of;  ///< exceptions, by rank

  // Saving
  std::string save;  ///< a directory
  bool overwrite = false;  ///< what another training has saved there
  std::optional<Every> save_every;
  bool resume = false;
  std::string resume_path;  ///< empty: the newest checkpoint in `save`
  bool eval_only = false;

  // Output
  std::string log, trace;
  std::string dump_gradients;  ///< a directory
  bool quiet = false, json = false, dry_run = false;
};

/// What differs from app to app: its name and the values that its options start from.
struct AppDefaults {
  std::string program;      ///< "mnist"
  std::string description;  ///< the first line of --help
  std::string footer;       ///< examples at the end of --help
  std::vector<std::string> models;
  bool reads_text = false;                        ///< language models, not images: other options
  bool reads_photos = false;                      ///< files of images: further options
  std::function<void(TrainOptions&)> of_model{};  ///< sets those defaults that depend on options.model
  std::function<std::unique_ptr<Task>(const TrainOptions&)> task{};
  TrainOptions options;
  std::vector<std::string> words{};  ///< options that go before those of a command line
};

/// Adds everything that can be set, into `options`, which must outlive it (training_settings.cc).
void add_settings(Settings& settings, TrainOptions& options, const AppDefaults& defaults);

/// What a trainer is told of them; what depends on the machine and the run is the caller's.
TrainerOptions trainer_options(const TrainOptions& options);

/// Parses a command line. Returns nothing if that was all (--help and --version print and are done).
/// Throws UsageError with the text "WHAT (WHERE): WHAT TO DO", naming the nearest option or value if one is near.
std::optional<TrainOptions> parse_options(int argc, const char* const* argv, const AppDefaults& defaults);

/// The version of this build, "0.1.0".
const char* version();

}  // namespace laconic
