#include <filesystem>
#include <fstream>

#include "apps/bench/harness.h"
#include "apps/common/machine.h"
#include "apps/torchvision_pipeline_source.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/scratch_folder.h"
#include "data/image_pack.h"

namespace laconic {
namespace {

/// Decodes and transforms images [0, count), each once, shared out over kernel threads.
void run_ours(const ImageSource& source, const PhotoTransform::Options& options, std::int64_t epoch,
              std::int64_t count) {
  const PhotoTransform transform(options);
  parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> out(static_cast<std::size_t>(3 * options.size * options.size));
    std::vector<std::uint8_t> buffer;
    for (std::int64_t i = begin; i < end; ++i) transform(source.read(i, buffer), source.name(i), epoch, i, out.data());
  });
}

}  // namespace

int bench_pipeline(const std::vector<std::string>& arguments) {
  std::string data;
  int images = 200, threads = 1, size = 224, rounds = 15;
  bool evaluation = false;
  Bench bench("pipeline",
              "How many photographs a second are decoded, augmented (random-resized-crop, flip) and normalised, for a "
              "core, by each decoder, and by Pillow and torchvision.");
  bench.option("data", data, "DATA", "a folder, list or pack of photographs, as imagenet's --data")->required();
  bench.option("--images", images, "I", "the first so many of its training images [200]", CLI::Range(1, 1 << 24));
  bench.option("--threads", threads, "T", "threads, or of the peer processes [1]", CLI::Range(1, 1024));
  bench.option("--size", size, "S", "pixels of a side that come out [224]", CLI::Range(1, 4096));
  bench.app.add_flag("--eval", evaluation, "resized and cut in the middle instead, as in evaluation");
  bench.option("--rounds", rounds, "R", "turns of each [15]", CLI::Range(1, 10000));
  bench.add_against("torchvision", "Pillow and torchvision too");
  if (const auto done = bench.parse(arguments)) return *done;

  const std::string python = bench.python();
  const PhotoDataset photos = open_photos(data);
  const std::int64_t count = std::min<std::int64_t>(images, photos.train->size());
  require<UsageError>(python.empty() || std::filesystem::exists(photos.train->name(0)), "torchvision cannot read ",
                      photos.train->name(0), " (--against): give a folder or a list of files");
  std::vector<Contender> all;
  std::int64_t epoch = 0;  // other crops in each turn
  for (const JpegDecoder decoder : {JpegDecoder::libjpeg, JpegDecoder::stb}) {
    if (decoder == JpegDecoder::libjpeg && !has_libjpeg()) continue;
    const PhotoTransform::Options options{
        .size = size, .augment = evaluation ? kNoPhotoAugment : kRandomCropAndFlip, .decoder = decoder};
    all.push_back({fmt::format("laconic, {}", to_string(decoder)),
                   [&, options] { run_ours(*photos.train, options, ++epoch, count); }});
  }
  std::unique_ptr<ChildProcess> peer;
  if (!python.empty()) {
    const ScratchFolder folder("pipeline");
    std::ofstream list(folder.path() + "/list");
    for (std::int64_t i = 0; i < count; ++i) list << std::filesystem::absolute(photos.train->name(i)).string() << "\n";
    list.close();
    peer = start_peer({python, "-c", kTorchvisionPipelineSource, std::to_string(size), evaluation ? "eval" : "train",
                       std::to_string(threads)},
                      torch_environment(1));
    peer->ask("load " + folder.path() + "/list");
    all.push_back({"Pillow, torchvision", [&] { peer->ask("run"); }});
  }
  set_kernel_threads(threads);
  run_in_turns(all, rounds);

  bench.say(fmt::format("{}\n{} images of {} to {} x {}, {}, {}", machine(), count, photos.name, size, size,
                        evaluation ? "as evaluated" : "random-resized-crop and flip", plural(threads, "thread")));
  ResultTable table(bench.markdown);
  for (const Contender& c : all) {
    const double rate = static_cast<double>(count) / c.time().value / threads;
    Cells row{{"pipeline", "pipeline", c.name}, {"images/s per core", "images_per_s_per_core", rate, "{:.0f}"}};
    if (peer && &c != &all.back()) row.emplace_back("times torchvision's (95 %)", "ratio", ratio(all.back(), c));
    table.add(row);
  }
  bench.show(table);
  return bench.finish({{"images", count}, {"size", size}, {"threads", threads}, {"results", table.objects()}});
}

}  // namespace laconic
