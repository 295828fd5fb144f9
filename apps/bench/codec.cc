#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/bench/harness.h"
#include "apps/common/machine.h"
#include "apps/common/values.h"
#include "compress/codecs.h"
#include "compress/cpu/isa.h"
#include "compress/inceptionn/inceptionn.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/raw.h"
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
    compress::cpu::avx512_allowed = isa == Isa::best;
    compress::cpu::avx2_allowed = isa != Isa::portable;
  }
  ~Restricted() {
    compress::cpu::avx512_allowed = true;
    compress::cpu::avx2_allowed = true;
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

/// One line of the table.
struct Line {
  std::string name;
  std::shared_ptr<const compress::Codec> codec;
  Isa isa;
  Bytes payload, again;
  std::size_t first = 0;  ///< of the contenders: encode, decode, and perhaps decode-add, decode-add-encode

  /// Some codecs are for hops, which add on the way.
  bool adds() const { return name.starts_with("inceptionn") || name.starts_with("groupq"); }
};

/// only : the codecs that are asked for; none: all
std::vector<std::unique_ptr<Line>> lines(Device device, const std::vector<std::string>& only) {
  std::vector<std::unique_ptr<Line>> all;
  const auto add = [&](const std::string& name, std::shared_ptr<const compress::Codec> codec, Isa isa = Isa::best) {
    if (device == kCpu || isa == Isa::best)
      all.push_back(std::make_unique<Line>(Line{name, std::move(codec), isa, Bytes(device), Bytes(device)}));
  };
  const auto named = [&](const std::string& name) {
    try {
      add(name, compress::make_codec(name));
    } catch (const UsageError&) {  // not in this build
    }
  };
  for (const std::string& name : only) add(name, compress::make_codec(name, "--codecs"));
  if (!only.empty()) return all;
  for (const char* name :
       {"inceptionn:2^-10", "inceptionn-published:2^-10", "inceptionn:2^-8", "inceptionn:2^-6", "inceptionn:rel:2^0"})
    named(name);
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

/// Makes what each codec is timed by, behind a copy. Each line learns where its contenders begin.
std::vector<Contender> contenders_of(const std::vector<std::unique_ptr<Line>>& lines, Slice<float> in, Slice<float> out,
                                     Slice<float> sum, const std::function<void()>& reset, int rounds) {
  std::vector<Contender> all;
  for (const auto& line : lines) {
    Line& l = *line;
    constexpr int kFew = 3;
    const int most = l.adds() && l.isa != Isa::portable ? rounds : std::min(rounds, kFew);
    l.first = all.size() + 1;
    const auto add = [&](const std::function<void()>& run, std::function<void()> before) {
      const auto restricted = [run, isa = l.isa] {
        const Restricted only(isa);
        run();
      };
      all.push_back({.name = l.name, .run = restricted, .before = std::move(before), .most_rounds = most});
    };
    add([&l, in] { l.payload.clear(), l.codec->encode(in, {}, l.payload); }, nullptr);
    add([&l, out] { l.codec->decode(l.payload.slice(), out); }, nullptr);
    if (!l.adds()) continue;
    add([&l, sum] { l.codec->decode_add(l.payload.slice(), sum); }, reset);
    add([&l, sum] { l.again.clear(), l.codec->decode_add_encode(l.payload.slice(), sum, {}, l.again); }, reset);
  }
  return all;
}

Bench::Json bench_data(const Bench& bench, const std::string& data, std::int64_t elements, int rounds,
                       const std::vector<std::string>& only) {
  const Device device = bench.device;
  const std::vector<std::string> drawn{"alexnet", "hdc", "whole"};
  const bool is_file = std::find(drawn.begin(), drawn.end(), data) == drawn.end();
  const Tensor x = copied_to(values_named(data, is_file ? 0 : elements, drawn), device);
  const Tensor y = Tensor::empty({x.elements()}, DType::f32, device);
  const Tensor mine = Tensor::zeros({x.elements()}, DType::f32, device);
  const Slice<float> in = x.slice(), out = y.slice(), sum = mine.slice();
  // What is added comes from elsewhere in the data: twice the same would be whole values more often than sums are.
  const auto half = static_cast<std::int64_t>(in.size() / 2), rest = x.elements() - half;
  const auto reset = [&] {
    mine.range(0, rest).copy_from(x.range(half, rest));
    mine.range(rest, half).copy_from(x.range(0, half));
  };
  reset();

  const auto lines = laconic::lines(device, only);
  std::vector<Contender> all = contenders_of(lines, in, out, sum, reset, rounds);
  if (bench.on_gpu())
    beside_a_copy(all, x);
  else
    all.insert(all.begin(), {.name = "memcpy", .run = [&] { std::memcpy(out.data(), in.data(), in.size_bytes()); }});
  run_in_turns(all, rounds);

  const auto bytes = static_cast<double>(x.bytes());
  const auto speed = [&](const Contender& c) { return 1e-9 * bytes / c.time().value; };  // GB/s
  const auto add_share = [&](Cells& row, const Contender& c, double moved) {
    if (bench.on_gpu())
      row.emplace_back("encode, of the bandwidth", "", share_of_bandwidth(c, all[0], moved, 2 * bytes), "{:.2f}");
  };
  const std::string copy = all[0].name, of_copy = fmt::format("of {} (95 %)", copy);
  ResultTable table(bench.markdown, fmt::format("{}, {} values, GB/s of floats on {}", data, x.elements(),
                                                bench.on_gpu() ? to_string(device) : "one core"));
  Cells first{
      {"codec", "", copy}, {"ratio", "", "1.00"}, {"encode", "", speed(all[0]), "{:.1f}"}, {of_copy, "", "1.00"}};
  add_share(first, all[0], 2 * bytes);
  table.add(first);
  for (const auto& line : lines) {
    const Line& l = *line;
    const double smaller = bytes / static_cast<double>(l.payload.size());
    Cells row{{"codec", "codec", l.name},
              {"ratio", "ratio", smaller, "{:.2f}"},
              {"encode", "encode_gb_s", speed(all[l.first]), "{:.1f}"},
              {of_copy, "encode_of_memcpy", ratio(all[0], all[l.first])},
              {"decode", "decode_gb_s", speed(all[l.first + 1]), "{:.1f}"}};
    if (l.adds()) {
      row.emplace_back("decode-add", "decode_add_gb_s", speed(all[l.first + 2]), "{:.1f}");
      row.emplace_back("decode-add-encode", "decode_add_encode_gb_s", speed(all[l.first + 3]), "{:.1f}");
    }
    l.codec->decode(l.payload.slice(), out);
    raw::axpy(y, -1.0f, x);
    const double error = raw::sum_of_squares(y) / raw::sum_of_squares(x);
    row.push_back(std::isfinite(error) ? Cell("error", "error", error, "{:.2g}")
                                       : Cell("error", "error", Cell::Json(), "–"));
    add_share(row, all[l.first], bytes + bytes / smaller);
    table.add(row);
  }
  bench.show(table);
  return {{"data", data}, {"elements", x.elements()}, {"memcpy_gb_s", speed(all[0])}, {"results", table.objects()}};
}

}  // namespace

int bench_codec(const std::vector<std::string>& arguments) {
  std::vector<std::string> data{"alexnet"}, codecs;
  double mib = 64;
  int rounds = 9;
  Bench bench(
      "codec",
      "How fast codecs are on one core, in turns with memcpy, how much smaller their payloads, and their error: "
      "the square of what is lost, as a share of that of the values.");
  bench.option("--data", data, "X",
               "alexnet, hdc (by the shares of INCEPTIONN's Table III), whole (nothing shrinks), a file of float32,\n"
               "FILE.safetensors:TENSOR, or a folder of --dump-gradients, DIR/step-000100 [alexnet]");
  bench.option("--codecs", codecs, "X", "which ones, as --codec names them [all]");
  bench.add_device("cpu, or cuda[:I], there in turns with a copy [cpu]");
  bench.option("--mib", mib, "M", "of drawn values [64]", number_from_to(0.01, 1024));
  bench.option("--rounds", rounds, "R", "turns; what is slow takes 3 [9]", CLI::Range(1, 100000));
  if (const auto done = bench.parse(arguments)) return *done;
  set_kernel_threads(1);
  const auto elements = static_cast<std::int64_t>(mib * (1 << 20) / sizeof(float));
  bench.say(machine(bench.device));
  auto all = Bench::Json::array();
  for (const std::string& d : data) all.push_back(bench_data(bench, d, elements, rounds, codecs));
  return bench.finish({{"results", all}});
}

}  // namespace laconic
