#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/bench/bench.h"
#include "apps/bench/paired.h"
#include "apps/bench/torch.h"
#include "apps/machine.h"
#include "apps/subcommand.h"
#include "apps/torchvision_pipeline_source.h"
#include "core/error.h"
#include "data/image_pack.h"

namespace laconic {
namespace {

struct PipelineOptions {
  std::string data, labels, against;
  int images = 200, threads = 1, size = 224, rounds = 15;
  bool evaluation = false, json = false, markdown = false;
};

/// Decodes and transforms images [0, count), each once, shared out over threads.
void run_ours(const ImageSource& source, const PhotoTransform::Options& options, std::int64_t epoch, int threads,
              std::int64_t count) {
  const PhotoTransform transform(options);
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(threads));
  const auto work = [&](int t) {
    try {
      std::vector<float> out(static_cast<std::size_t>(3 * options.size * options.size));
      std::vector<std::uint8_t> buffer;
      for (std::int64_t i = t; i < count; i += threads)
        transform(source.read(i, buffer), source.name(i), epoch, i, out.data());
    } catch (...) {
      failed[static_cast<std::size_t>(t)] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
}

/// The images' paths in a file of its own for as long as it lives.
class ListFile {
 public:
  ListFile(const ImageSource& source, std::int64_t count)
      : path_((std::filesystem::temp_directory_path() / fmt::format("laconic_pipeline_{}.txt", ::getpid())).string()) {
    std::ofstream out(path_);
    for (std::int64_t i = 0; i < count; ++i) out << std::filesystem::absolute(source.name(i)).string() << "\n";
  }
  ~ListFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ListFile(const ListFile&) = delete;
  ListFile& operator=(const ListFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

int bench_pipeline(const std::vector<std::string>& arguments) {
  PipelineOptions o;
  CLI::App app(
      "How many photographs a second are decoded, augmented (random-resized-crop, flip) and normalised, for a core, "
      "by\n"
      "each decoder, and by Pillow and torchvision.",
      "laconic bench pipeline");
  app.add_option("data", o.data, "a folder, list or pack of photographs, as imagenet's --data")
      ->required()
      ->type_name("DATA");
  app.add_option("--images", o.images, "the first so many of its training images [200]")->check(CLI::Range(1, 1 << 24));
  app.add_option("--threads", o.threads, "threads, or of the peer processes [1]")->check(CLI::Range(1, 1024));
  app.add_option("--size", o.size, "pixels of a side that come out [224]")->check(CLI::Range(1, 4096));
  app.add_flag("--eval", o.evaluation, "resized and cut in the middle instead, as in evaluation");
  app.add_option("--rounds", o.rounds, "turns of each [15]")->check(CLI::Range(1, 10000));
  app.add_option("--against", o.against, "Pillow and torchvision too: LACONIC_PYTHON, python3 or /usr/bin/python3")
      ->type_name("torchvision")
      ->check(CLI::IsMember({"torchvision"}));
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;

  const std::string python = o.against.empty() ? "" : python_with("torchvision");
  const PhotoDataset photos = open_photos(o.data);
  const std::int64_t count = std::min<std::int64_t>(o.images, photos.train->size());
  require<UsageError>(python.empty() || std::filesystem::exists(photos.train->name(0)), "torchvision cannot read ",
                      photos.train->name(0), " (--against): give a folder or a list of files");
  std::vector<Contender> all;
  std::int64_t epoch = 0;  // other crops in each turn
  for (const JpegDecoder decoder : {JpegDecoder::libjpeg, JpegDecoder::stb}) {
    if (decoder == JpegDecoder::libjpeg && !has_libjpeg()) continue;
    const PhotoTransform::Options options{
        .size = o.size, .augment = o.evaluation ? kNoPhotoAugment : kRandomCropAndFlip, .decoder = decoder};
    all.push_back({fmt::format("laconic, {}", to_string(decoder)),
                   [&, options] { run_ours(*photos.train, options, ++epoch, o.threads, count); }});
  }
  std::unique_ptr<ChildProcess> peer;
  const ListFile list(*photos.train, python.empty() ? 0 : count);
  if (!python.empty()) {
    peer = std::make_unique<ChildProcess>(
        std::vector<std::string>{python, "-c", kTorchvisionPipelineSource, std::to_string(o.size),
                                 o.evaluation ? "eval" : "train", std::to_string(o.threads)},
        torch_environment(1));
    peer->receive();
    peer->ask("load " + list.path());
    all.push_back({"Pillow, torchvision", [&] { peer->ask("run"); }});
  }
  run_in_turns(all, o.rounds);

  if (!o.json)
    fmt::print("{}\n{} images of {} to {} x {}, {}, {} thread{}\n", machine(), count, photos.name, o.size, o.size,
               o.evaluation ? "as evaluated" : "random-resized-crop and flip", o.threads, o.threads == 1 ? "" : "s");
  if (o.markdown)
    fmt::print("\n| pipeline | images/s per core |{}\n|---|---|{}\n", peer ? " times torchvision's (95 %) |" : "",
               peer ? "---|" : "");
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Contender& c : all) {
    const double rate = static_cast<double>(count) / median(c.seconds).value / o.threads;
    nlohmann::ordered_json result = {{"pipeline", c.name}, {"images_per_s_per_core", rate}};
    std::string faster;
    if (peer && &c != &all.back()) {
      const Median times = ratio(all.back(), c);
      result["ratio"] = times.value, result["ratio_low"] = times.low, result["ratio_high"] = times.high;
      faster = fmt::format("{:.2f} ({:.2f} … {:.2f})", times.value, times.low, times.high);
    }
    results.push_back(result);
    if (o.markdown)
      fmt::print("| {} | {:.0f} |{}\n", c.name, rate, peer ? " " + faster + " |" : "");
    else if (!o.json)
      fmt::print("  {:<22} {:>7.0f} images/s per core{}\n", c.name, rate,
                 faster.empty() ? "" : ", " + faster + " times torchvision's");
  }
  if (o.json)
    fmt::print("{}\n",
               nlohmann::ordered_json{{"images", count}, {"size", o.size}, {"threads", o.threads}, {"results", results}}
                   .dump());
  return 0;
}

}  // namespace laconic
