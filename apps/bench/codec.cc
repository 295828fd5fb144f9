#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.h"
#include "apps/bench/codec_data.h"
#include "apps/bench/paired.h"
#include "apps/bench/select.h"
#include "apps/device_options.h"
#include "apps/machine.h"
#include "apps/subcommand.h"
#include "apps/values.h"
#include "compress/codecs.h"
#include "compress/cpu/isa.h"
#include "compress/inceptionn_halves.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/stream.h"
#ifdef LACONIC_ZSTD
#include <zstd.h>
#endif

namespace laconic {
namespace {

using compress::Bytes;
using compress::Inceptionn;

enum class Isa { best, avx2, portable };

/// The kernels of one set of instructions, while it lives.
class Restricted {
 public:
  explicit Restricted(Isa isa) {
    compress::cpu::allow_avx512(isa == Isa::best);
    compress::cpu::allow_avx2(isa != Isa::portable);
  }
  ~Restricted() {
    compress::cpu::allow_avx512(true);
    compress::cpu::allow_avx2(true);
  }
  Restricted(const Restricted&) = delete;
  Restricted& operator=(const Restricted&) = delete;
};

#ifdef LACONIC_ZSTD
/// zstd -1, for contrast; not a codec that one can train with here.
class Zstd final : public compress::Codec {
 public:
  std::size_t max_bytes(std::size_t elements) const override { return ZSTD_compressBound(elements * sizeof(float)); }
  void encode(Slice<const float> x, const compress::Key&, Bytes& payload) const override {
    const std::size_t before = payload.size();
    const Slice<std::byte> out = payload.append(max_bytes(x.size()));
    payload.resize(before + checked(ZSTD_compress(out.data(), out.size(), x.data(), x.size_bytes(), 1)));
  }
  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    checked(ZSTD_decompress(x.data(), x.size_bytes(), payload.data(), payload.size()));
  }
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(max_bytes(elements)); }

 private:
  static std::size_t checked(std::size_t result) {
    require<Error>(ZSTD_isError(result) == 0, "zstd: ", ZSTD_getErrorName(result));
    return result;
  }
};
#endif

/// One line of the table, and where its times stand among the contenders (0: it does not do that).
struct Line {
  std::string name;
  std::shared_ptr<const compress::Codec> codec;
  Isa isa = Isa::best;
  Bytes payload, again;
  std::size_t encode = 0, decode = 0, decode_add = 0, decode_add_encode = 0;
};

std::vector<std::unique_ptr<Line>> lines(Device device) {
  std::vector<std::unique_ptr<Line>> all;
  const auto add = [&](const std::string& name, std::shared_ptr<const compress::Codec> codec, Isa isa = Isa::best) {
    if (device != kCpu && isa != Isa::best) return;
    all.push_back(std::make_unique<Line>(
        Line{.name = name, .codec = std::move(codec), .isa = isa, .payload = Bytes(device), .again = Bytes(device)}));
  };
  const auto named = [&](const std::string& name) {
    try {
      add(name, compress::make_codec(name));
    } catch (const UsageError&) {  // not in this build
    }
  };
  named("inceptionn:2^-10");
  named("inceptionn-published:2^-10");
  named("inceptionn:2^-8");
  named("inceptionn:2^-6");
  const auto one = std::make_shared<Inceptionn>(compress::InceptionnMode::bounded, -10);
  add("inceptionn:2^-10, one payload", one);
  add("inceptionn:2^-10, AVX2", compress::make_codec("inceptionn:2^-10"), Isa::avx2);
  add("inceptionn:2^-10, AVX2, one payload", one, Isa::avx2);
  add("inceptionn:2^-10, no vectors", compress::make_codec("inceptionn:2^-10"), Isa::portable);
  for (const char* name : {"trunc:22", "trunc:24"}) named(name);
  for (const compress::CodecKind& kind : compress::codecs())
    if (!kind.name.starts_with("inceptionn")) named(kind.example);
#ifdef LACONIC_ZSTD
  if (device == kCpu) add("zstd -1", std::make_shared<Zstd>());
#endif
  return all;
}

nlohmann::json bench_data(const std::string& data, std::int64_t elements, int rounds, bool markdown, bool json,
                          Device device) {
  const Tensor x = copied_to(codec_data(data, elements), device);
  const Tensor y = Tensor::empty({x.elements()}, DType::f32, device);
  const Tensor mine = Tensor::zeros({x.elements()}, DType::f32, device);
  const Slice<float> in = x.slice(), out = y.slice(), sum = mine.slice();
  // What is added comes from elsewhere in the data: twice the same would be whole values more often than sums are.
  const auto half = static_cast<std::int64_t>(in.size() / 2), rest = x.elements() - half;
  const auto reset = [&mine, &x, half, rest] {
    mine.range(0, rest).copy_from(x.range(half, rest));
    mine.range(rest, half).copy_from(x.range(0, half));
  };
  reset();
  const double gigabytes = static_cast<double>(x.bytes()) * 1e-9;
  constexpr int kFew = 3;

  std::vector<Contender> all;
  if (device == kCpu)
    all.push_back({.name = "memcpy", .run = [&] { std::memcpy(out.data(), in.data(), in.size_bytes()); }});
  else
    beside_a_copy(all, x.elements(), device);
  const auto lines = laconic::lines(device);
  for (const auto& line : lines) {
    Line& l = *line;
    const bool ours = dynamic_cast<const Inceptionn*>(l.codec.get()) != nullptr ||
                      dynamic_cast<const compress::InceptionnHalves*>(l.codec.get()) != nullptr;
    const int most = ours && l.isa != Isa::portable ? rounds : std::min(rounds, kFew);
    const auto add = [&](std::size_t& place, std::function<void()> run, std::function<void()> before = {}) {
      place = all.size();
      const auto waited = [device](std::function<void()> f) {
        return [f = std::move(f), device] { f(), synchronize(device); };
      };
      all.push_back({.name = l.name,
                     .run = waited(std::move(run)),
                     .before = before ? waited(std::move(before)) : std::function<void()>(),
                     .most_rounds = most});
    };
    add(l.encode, [&l, in] {
      const Restricted restricted(l.isa);
      l.payload.clear();
      l.codec->encode(in, {}, l.payload);
    });
    add(l.decode, [&l, out] {
      const Restricted restricted(l.isa);
      l.codec->decode(l.payload.slice(), out);
    });
    if (!ours) continue;
    add(
        l.decode_add,
        [&l, sum] {
          const Restricted restricted(l.isa);
          l.codec->decode_add(l.payload.slice(), sum);
        },
        reset);
    add(
        l.decode_add_encode,
        [&l, sum] {
          const Restricted restricted(l.isa);
          l.again.clear();
          l.codec->decode_add_encode(l.payload.slice(), sum, {}, l.again);
        },
        reset);
  }
  run_in_turns(all, rounds);

  const auto speed = [&](std::size_t place) { return place == 0 ? 0 : 1e3 * gigabytes / all[place].milliseconds(); };
  const auto shown = [&](std::size_t place) {
    return place == 0 ? std::string() : fmt::format("{:.1f}", speed(place));
  };
  const char* const copy = device == kCpu ? "memcpy" : "copy";
  std::vector<std::string> columns{"codec",  "ratio",      "encode",           fmt::format("of {} (95 %)", copy),
                                   "decode", "decode-add", "decode-add-encode"};
  if (device != kCpu) columns.push_back("encode, of the bandwidth");
  const ResultTable table(columns, markdown);
  auto list = nlohmann::json::array();
  const double copied = 1e3 * gigabytes / all[0].milliseconds();
  if (!json) {
    table.title(fmt::format("{}, {} values, GB/s of floats on {}", data, x.elements(),
                            device == kCpu ? "one core" : to_string(device)));
    std::vector<std::string> cells{copy, "1.00", fmt::format("{:.1f}", copied), "1.00", "", "", ""};
    const auto moved = 2 * static_cast<double>(x.bytes());
    if (device != kCpu) cells.push_back(share_of_bandwidth(all[0], all[0], moved, moved));
    table.row(cells);
  }
  for (const auto& line : lines) {
    const Line& l = *line;
    const double smaller = static_cast<double>(x.bytes()) / static_cast<double>(l.payload.size());
    const Median memcpys = laconic::ratio(all[0], all[l.encode]);
    list.push_back({{"codec", l.name},
                    {"ratio", smaller},
                    {"encode_gb_s", speed(l.encode)},
                    {"encode_of_memcpy", memcpys.value},
                    {"decode_gb_s", speed(l.decode)}});
    if (l.decode_add)
      list.back().update(
          {{"decode_add_gb_s", speed(l.decode_add)}, {"decode_add_encode_gb_s", speed(l.decode_add_encode)}});
    std::vector<std::string> cells{l.name,
                                   fmt::format("{:.2f}", smaller),
                                   shown(l.encode),
                                   with_interval(memcpys),
                                   shown(l.decode),
                                   shown(l.decode_add),
                                   shown(l.decode_add_encode)};
    if (device != kCpu) {
      const auto bytes = static_cast<double>(x.bytes());
      cells.push_back(share_of_bandwidth(all[l.encode], all[0], bytes + bytes / smaller, 2 * bytes));
    }
    if (!json) table.row(cells);
  }
  return {{"data", data}, {"elements", x.elements()}, {"memcpy_gb_s", copied}, {"results", list}};
}

}  // namespace

int bench_codec(const std::vector<std::string>& arguments) {
  std::vector<std::string> data{"alexnet"};
  double mib = 64;
  int rounds = 9;
  bool json = false, markdown = false;
  std::string device = "cpu";
  CLI::App app("How fast codecs are on one core, in turns with memcpy, and how much smaller their payloads.",
               "laconic bench codec");
  app.add_option("--data", data,
                 "alexnet, hdc (by the shares of INCEPTIONN's Table III), whole (nothing shrinks), a file of float32,\n"
                 "FILE.safetensors:TENSOR, or a folder of --dump-gradients, DIR/step-000100 [alexnet]")
      ->delimiter(',')
      ->type_name("X,..");
  app.add_option("--device", device, "cpu, or cuda[:I], there in turns with a copy [cpu]")->type_name("DEVICE");
  app.add_option("--mib", mib, "of drawn values [64]")->check(CLI::Range(0.01, 1024.0))->type_name("M");
  app.add_option("--rounds", rounds, "turns; what is slow takes 3 [9]")->check(CLI::Range(1, 100000))->type_name("R");
  app.add_flag("--json", json, "one object, on the last line");
  app.add_flag("--markdown", markdown, "tables for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  checked_device(device, "--device");
  set_kernel_threads(1);
  const auto elements = static_cast<std::int64_t>(mib * (1 << 20) / sizeof(float));
  if (!json) fmt::print("{}\n", machine(device_named(device)));
  auto all = nlohmann::json::array();
  for (const std::string& d : data)
    all.push_back(bench_data(d, elements, rounds, markdown, json, device_named(device)));
  if (json) fmt::print("{}\n", nlohmann::json{{"results", all}}.dump());
  return 0;
}

}  // namespace laconic
