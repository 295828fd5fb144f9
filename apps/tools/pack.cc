#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>

#include "apps/common/terminal.h"
#include "apps/common/tools.h"
#include "apps/common/text.h"
#include "core/base/error.h"
#include "core/base/processor.h"
#include "data/image_pack.h"

namespace laconic {

int pack(const std::vector<std::string>& arguments) {
  std::string data, out, labels;
  PackOptions o;
  o.threads = cpu::available_cores();
  int max_bad = 0;
  bool raw = false;
  CLI::App app("Writes a data set of photographs as one file, for disks that are slow at finding a million small ones.",
               "laconic pack");
  app.add_option("data", data,
                 "a folder with train and val, one of classes, a list, an archive, or TRAIN,VAL; as imagenet's --data")
      ->required()
      ->type_name("DATA");
  app.add_option("out", out, "the file to write")->required()->type_name("OUT");
  auto* const size =
      app.add_option("--size", o.size, "make the shorter side of larger pictures S pixels, stored as JPEG")
          ->type_name("S")
          ->check(CLI::Range(1, 65536));
  app.add_flag("--raw", raw, "the files as they are [so without --size]")->excludes(size);
  app.add_option("--quality", o.quality, "of that JPEG [92]")->type_name("Q")->check(CLI::Range(1, 100))->needs(size);
  app.add_option("--labels", labels, "names of the classes, one a line [synsets.txt or labels.txt beside the data]")
      ->type_name("FILE");
  app.add_option("--max-bad", max_bad, "damaged files that are left out [0]")
      ->type_name("K")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app.add_option("--threads", o.threads, "threads [all cores]")->type_name("T")->check(CLI::Range(1, 1024));
  if (const auto done = parse_tool(app, arguments)) return *done;

  const PhotoDataset photos = open_photos(data, labels);
  const std::int64_t all = photos.train->size() + (photos.validation ? photos.validation->size() : 0);
  BadFiles bad(max_bad, [](const std::string& what) {
    fmt::print(stderr, "laconic: warning: {} It is left out (--max-bad).\n", what);
  });
  const bool terminal = terminal_columns() > 0;
  const PackReport report = write_pack(photos, out, o, bad, [&](std::int64_t done) {
    if (terminal) fmt::print("\r{} of {} images\x1b[K", done, all), std::fflush(stdout);
  });
  fmt::print("{}{}: {} training and {} validation images of {} classes, {}", terminal ? "\r" : "", out, report.train,
             report.validation, photos.classes.size(), human_bytes(static_cast<double>(report.bytes_after)));
  if (o.size > 0) fmt::print(" instead of {}", human_bytes(static_cast<double>(report.bytes_before)));
  fmt::print("{}\n", terminal ? "\x1b[K" : "");
  return 0;
}

}  // namespace laconic
