// laconic calibrate: what ranks and network take here, as a training with --plan auto measures them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>

#include "apps/bench/layers.h"
#include "apps/command_line.h"
#include "apps/common/machine.h"
#include "apps/common/result_table.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "compress/codecs.h"
#include "core/base/settings.h"
#include "dist/predict/calibration_file.h"

namespace laconic {
namespace {

struct CalibrateOptions {
  std::optional<int> workers{};
  std::optional<dist::LinkSpec> link{};
  std::vector<std::string> codecs{"bf16", "inceptionn:2^-10", "inceptionn:rel:2^0"};
  std::vector<std::int64_t> sizes{16 << 10, 256 << 10, 4 << 20};
  std::string model{}, save{};
  int threads = 0, batch = 32, classes = 0, steps = 15;
  bool json = false, markdown = false;
};

std::optional<dist::LinkOptions> emulated_link(const CalibrateOptions& o) {
  return o.link ? std::optional(dist::LinkOptions{.all = *o.link}) : std::nullopt;
}

void add_calibrate_settings(Settings& s, CalibrateOptions& o) {
  s.group("Ranks and network", Scope::exchange);
  s.value("workers", "N", "threads that measure together [1]; processes: laconic launch",
          [&o](const std::string& text, const std::string& where) {
            o.workers = whole<int>(text, where, 1);
            require<UsageError>(*o.workers <= 1024, "'", text, "' are more workers than a process can bear (", where,
                                "): give at most 1024");
          });
  s.value("link", "RATE,LATENCY", "emulated between them, as 100mbit,1ms",
          [&o](const std::string& text, const std::string& where) { o.link = dist::LinkSpec::parse(text, where); });
  s.whole_number<int>("threads", "T", o.threads, 1, "that compute, of each [cores that it may use / workers here]", false);
  s.group("Work", Scope::model);
  s.value("codecs", "C,..", "[" + join(o.codecs, ",") + "]", [&o](const std::string& text, const std::string& where) {
    o.codecs.clear();
    for (const std::string& name : split(text, ',')) {
      compress::make_codec(name, where);
      if (name != "none") o.codecs.push_back(name);
    }
  });
  s.value("sizes", "N,..", "values at once, of selection and codecs\n[16384,262144,4194304]",
          [&o](const std::string& text, const std::string& where) {
            o.sizes.clear();
            for (const std::string& n : split(text, ',')) o.sizes.push_back(whole<std::int64_t>(n, where, 16, 1 << 28));
          });
  s.text("model", "NAME", o.model, "of the zoo: each layer's time too, on made-up data");
  s.whole_number<int>("batch", "B", o.batch, 1, "its samples of a worker");
  s.whole_number<int>("classes", "K", o.classes, 1, "its outputs [the model's own]", false);
  s.whole_number<int>("steps", "S", o.steps, 1, "that are timed of it, after 3 more");
  s.group("Output", Scope::output);
  s.text("save", "FILE", o.save, "for --calibration FILE of a training, or of laconic simulate");
  s.flag("json", o.json, "the object that --save writes, as the only line");
  s.flag("markdown", o.markdown, "tables for docs");
}

Cells figures_of_rank(std::size_t rank, const std::string& of, const dist::Calibration& c) {
  Cells row{{"rank", "", rank}, {"host", "", of.substr(0, of.find(';'))}};
  if (c.workers > 1)
    row.insert(row.end(), {{"latency us", "", c.latency_seconds, "{:.1f}", 1e6},
                           {"Mbit/s both ways", "", c.bytes_per_second, "{:.4g}", 8e-6},
                           {"one way", "", c.one_way_bytes_per_second, "{:.4g}", 8e-6},
                           {"us a message", "", c.work.per_message, "{:.2f}", 1e6},
                           {"ns a byte", "", c.work.per_byte, "{:.3f}", 1e9}});
  row.emplace_back("adding GB/s", "", 1e-9 / c.work.per_added_byte, "{:.1f}");
  row.emplace_back("taken from computing", "", 100 * c.work.taken_from_computing, "{:.0f} %");
  return row;
}

/// `seconds` : for each value
Cells figures_of_work(std::int64_t values, const std::string& work, double seconds) {
  return {{"values", "", values},
          {"work", "", work},
          {"ns a value", "", seconds, "{:.3f}", 1e9},
          {"GB/s of float32", "", 4e-9 / std::max(1e-15, seconds), "{:.2f}"}};
}

void print_calibration(const CalibrateOptions& o, int threads, const dist::CalibrationFile& file) {
  fmt::print("{}\n{}, {} each\n", machine(), plural(static_cast<std::int64_t>(file.ranks.size()), "worker"),
             plural(threads, "thread"));
  ResultTable ranks(o.markdown, "");
  for (std::size_t r = 0; r < file.ranks.size(); ++r) ranks.add(figures_of_rank(r, file.of[r], file.ranks[r]));
  fmt::print("{}", ranks.text());
  ResultTable work(o.markdown, "Work on one thread, of the slowest rank:");
  for (const dist::SpeedAtSize& size : dist::slowest(file.ranks).sizes) {
    work.add(figures_of_work(size.elements, "gather into the residual", size.residual.gather));
    work.add(figures_of_work(size.elements, "select", size.residual.select));
    work.add(figures_of_work(size.elements, "scatter, of what is chosen", size.residual.scatter));
    for (const auto& [name, speed] : size.codecs) {
      work.add(figures_of_work(size.elements, "encode " + name, speed.encode));
      work.add(figures_of_work(size.elements, "decode " + name, speed.decode));
    }
  }
  fmt::print("{}", work.text());
  if (!file.model.empty()) {
    ResultTable layers(o.markdown, fmt::format("{}, batch {}, of the slowest worker: {:.3f} ms a step", file.model,
                                               file.batch, file.layers.step_ms));
    add_layers(layers, file.layers);
    fmt::print("{}", layers.text());
  }
  if (!o.save.empty()) fmt::print("\nsaved: {}\n", o.save);
}

void calibrate_on(dist::Worker& worker, const CalibrateOptions& o) {
  const int threads = o.threads > 0 ? o.threads : default_threads(worker);
  dist::CalibrationFile file;
  file.of = dist::identities(worker, threads, calibrated_here(emulated_link(o)));
  file.time = std::time(nullptr);
  file.ranks = dist::calibrate(
      worker,
      {.threads = threads, .codecs = o.codecs, .one_way = true, .sizes = o.sizes, .choice = {.selector = "exact"}});
  if (!o.model.empty()) {
    file.model = model_info(o.model).name, file.classes = o.classes, file.batch = o.batch;
    const double threads_per_core = dist::slowest(file.ranks).threads_per_core;
    const std::string mine =
        to_json(measure_layers(o.model, o.batch, threads, o.steps, "", o.classes, kCpu, threads_per_core));
    const std::vector<std::string> all = dist::texts_of_all(worker, "times of layers", mine);
    std::vector<dist::LayerTimes> times;
    for (const std::string& text : all) times.push_back(dist::layer_times_from(text, "the times of a rank"));
    file.layers = dist::slowest(times);
  }
  if (worker.rank > 0) return;
  if (!o.save.empty()) file.save(o.save);
  if (o.json)
    fmt::print("{}\n", file.json());
  else
    print_calibration(o, threads, file);
  std::fflush(stdout);
}

}  // namespace

int calibrate(const std::vector<std::string>& arguments) {
  CalibrateOptions o;
  Settings settings;
  add_calibrate_settings(settings, o);
  CLI::App app(
      "What ranks, network, codecs and layers take here, measured as a training with --plan auto measures them.\n"
      "Processes: laconic launch -n 2 laconic calibrate ...",
      "laconic calibrate");
  Texts texts;
  laconic::bind(app, settings, texts);  // unqualified, std::bind would match better
  if (const auto done = parse_tool(app, arguments)) return *done;
  for (const auto& [name, text] : texts) settings.set(name, text);
  for (const char* name : {"batch", "classes", "steps"})
    if (o.model.empty() && settings.given(name))
      refuse("without a model no layers are timed", concat("`", name, "`"), "add `model`, or leave it out");
  if (!o.model.empty()) model_info(o.model);
  const int ranks = dist::ranks_under_mpirun();
  dist::WorldOptions world{.workers = o.workers.value_or(ranks > 0 ? 0 : 1)};
  world.link = emulated_link(o);
  dist::run_workers(world, [&](dist::Worker& worker) { calibrate_on(worker, o); });
  return 0;
}

}  // namespace laconic
