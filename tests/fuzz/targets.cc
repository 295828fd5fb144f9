#include "tests/fuzz/targets.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "apps/bench/layers.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "apps/compare/table.h"
#include "apps/launch/mpirun.h"
#include "apps/look/json_log.h"
#include "apps/look/log_file.h"
#include "apps/look/trace_file.h"
#include "apps/simulate/options.h"
#include "apps/training/options.h"
#include "compress/codecs.h"
#include "compress/select/selector.h"
#include "compress/slim.h"
#include "core/base/json.h"
#include "core/state.h"
#include "core/weights_file.h"
#include "data/archive_file.h"
#include "data/bpe.h"
#include "data/image_dataset.h"
#include "data/image_pack.h"
#include "data/image_source.h"
#include "data/npy.h"
#include "data/npz.h"
#include "data/synthetic.h"
#include "data/table.h"
#include "data/text.h"
#include "data/text_blocks.h"
#include "data/token_file.h"
#include "dist/collective/allgatherv.h"
#include "dist/collective/allreduce.h"
#include "dist/collective/meeting.h"
#include "dist/engine/flight.h"
#include "dist/method/carry.h"
#include "dist/method/rank_state.h"
#include "dist/method/warmup.h"
#include "dist/predict/calibration_file.h"
#include "dist/predict/planner.h"
#include "dist/server/leg.h"
#include "dist/server/server.h"
#include "dist/server/shard.h"
#include "dist/trainer/checkpoint.h"
#include "layers/foreign_weights.h"
#include "layers/models/gpt.h"
#include "layers/models/gpt_config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tests/scripted_ranks.h"
#include "tests/tar.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

std::string text_of(FuzzInput input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

/// Whether it is taken; else one sentence says why not.
template <class F>
bool taken(F&& read) {
  std::string why;
  try {
    read();
    return true;
  } catch (const DataError& e) {
    why = e.what();
  } catch (const CommError& e) {
    why = e.what();
  }
  EXPECT_FALSE(why.empty());
  return false;
}

/// A folder for what can only be read from files.
const std::string& folder() {
  static const TempFolder made;
  return made.path();
}
std::string on_disk(const std::string& bytes, const std::string& name = "input") {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}
std::string on_disk(FuzzInput input, const std::string& name = "input") { return on_disk(text_of(input), name); }

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T number{};
  if (at + sizeof number <= bytes.size()) std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// Takes bytes from the front of an input, and zeros behind its end.
class Front {
 public:
  explicit Front(FuzzInput input) : left_(input) {}
  unsigned byte() {
    const FuzzInput one = take(1);
    return one.empty() ? 0 : std::to_integer<unsigned>(one[0]);
  }
  unsigned pair() { return byte() + 256 * byte(); }
  /// So many bytes, or what there is.
  FuzzInput take(std::size_t bytes) {
    const FuzzInput front = left_.first(std::min(bytes, left_.size()));
    left_ = left_.subspan(front.size());
    return front;
  }
  /// The rest, as messages behind their lengths.
  dist::Script::Messages messages() {
    dist::Script::Messages all;
    while (!left_.empty()) {
      const FuzzInput one = take(pair());
      all.emplace_back(one.begin(), one.end());
    }
    return all;
  }

 private:
  FuzzInput left_;
};

// ------------------------------------------------------------------------------------------- weights and checkpoints

bool safetensors(FuzzInput input) {
  const std::string path = on_disk(input);
  StateDict state;
  if (!taken([&] { state = load_safetensors(path); })) return false;
  for (const auto& [name, tensor] : state) {
    taken([&, n = name] { dist::joined_from(state, n); });
    EXPECT_EQ(state.part("").at(name).bytes(), tensor.bytes());
  }
  taken([&] { dist::places_in(state); });
  taken([&] { Schedule::parse("plateau:1,0.5").load(state); });
  taken([&] { compress::SlimSet().load(state, 100); });
  EXPECT_TRUE(taken([&] { save_safetensors(state, folder() + "/again"); }));
  return true;
}

const models::GPT& tiny_gpt() {
  static const models::GPT model({.vocabulary = 11, .layers = 2, .heads = 2, .width = 8, .block = 5});
  return model;
}

/// As any program may have saved them.
bool weights(FuzzInput input) {
  const std::string path = on_disk(input);
  return taken([&] {
    const WeightsFile file(path);
    for (const auto& [name, entry] : file.entries())
      for (const DType dtype : {DType::f32, DType::i64}) taken([&, n = name] { file.read_as(n, dtype); });
    const TakenWeights found = weights_for(tiny_gpt(), file, "gpt");
    tiny_gpt().translated(found.weights);
    model_of(found.weights.texts());
  });
}

/// A folder of weights in two shards.
const std::string& folder_of_shards() {
  static const std::string made = [] {
    const std::string path = folder() + "/shards";
    std::filesystem::create_directory(path);
    for (const char* const name : {"x", "y"}) {
      StateDict state;
      state.set(name, Tensor::zeros({2}));
      save_safetensors(state, concat(path, "/", name, ".safetensors"));
    }
    return path;
  }();
  return made;
}

bool weights_index(FuzzInput input) {
  std::ofstream(folder_of_shards() + "/index.json", std::ios::binary) << text_of(input);
  return taken([] { WeightsFile(folder_of_shards() + "/index.json"); });
}

bool gpt_config(FuzzInput input) {
  std::ofstream(folder_of_shards() + "/config.json", std::ios::binary) << text_of(input);
  return taken([] { EXPECT_GT(models::gpt_from_config(folder_of_shards()).value_or(tiny_gpt().options()).heads, 0); });
}

/// With the checksum that it should have, so that damage goes further than there.
bool manifest(FuzzInput input) {
  std::string text = text_of(input);
  taken([&] {
    auto json = json_or_discarded(text);
    if (!json.is_object() || !json.contains("checksum")) return;
    json.erase("checksum");
    FileSum sum;
    const std::string summed = json.dump();
    sum.add(summed.data(), summed.size());
    json["checksum"] = sum.crc_text();
    text = json.dump();
  });
  on_disk(text, "manifest.json");
  return taken([] {
    const Manifest m = CheckpointStore::read_manifest(folder());
    other_training(m.fingerprint, "model=lenet\nplan=1\n");
  });
}

// --------------------------------------------------------------------------------------------- plans and measurements

const GhostModel& lenet() {
  static const GhostModel model("lenet", 10);
  return model;
}

bool plan(FuzzInput input) {
  return taken([&] {
    const auto& parameters = lenet().arena.parameters();
    const dist::Plan read = dist::Plan::from_json(text_of(input), parameters, "input");
    EXPECT_EQ(dist::Plan::from_json(read.json(), parameters, "again").json(), read.json());
    EXPECT_FALSE(read.table().empty());
    EXPECT_EQ(dist::servers_of(read, 3).size(), read.buckets.size());
  });
}

bool parameters(FuzzInput input) {
  return taken([&] { dist::to_json(dist::infos_of(dist::parameters_from_json(text_of(input)))); });
}

bool calibration(FuzzInput input) {
  const std::string text = text_of(input);
  taken([&] { dist::calibration_from(text, "input"); });
  taken([&] { dist::layer_times_from(text, "input"); });
  return taken([&] {
    const auto file = dist::CalibrationFile::from(text, "input");
    dist::CalibrationFile::from(file.json(), "again");
    const dist::Calibration slowest = dist::slowest(file.ranks);
    EXPECT_FALSE(slowest.to_string().empty());
    slowest.network("bf16");
  });
}

// ------------------------------------------------------------------------------------------------------------ data

bool idx(FuzzInput input) {
  const std::string path = on_disk(input);
  bool any = false;
  for (const int rank : {1, 3}) any |= taken([&] { read_idx(path, rank); });
  return any;
}

bool cifar(FuzzInput input) {
  for (const char* name : {"data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin"}) on_disk(input, name);
  const bool ten = taken([] { load_cifar10(folder()); }), hundred = taken([] { load_cifar100(folder()); });
  return ten || hundred;
}

/// With the checksum of its index that it should have.
std::string mended_pack(std::string pack) {
  constexpr std::size_t kFoot = 56, kNumbers = 40;
  if (pack.size() < kFoot) return pack;
  const std::size_t numbers = pack.size() - kFoot;
  const auto index = number_at<std::uint64_t>(pack, numbers);
  if (index > numbers) return pack;
  FileSum sum;
  sum.add(pack.data() + index, numbers + kNumbers - index);
  std::memcpy(pack.data() + numbers + kNumbers, &sum.crc32, sizeof sum.crc32);
  return pack;
}

/// A pack, or a list of photographs.
bool photos(FuzzInput input) {
  const std::string path = on_disk(mended_pack(text_of(input)));
  return taken([&] {
    const PhotoDataset data = open_photos(path);
    data.fingerprint();
    std::vector<std::uint8_t> buffer;
    for (const auto& source : {data.train, data.validation})
      for (std::int64_t i = 0; source && i < source->size(); ++i) {
        EXPECT_LT(static_cast<std::size_t>(source->label(i)), data.classes.size());
        source->name(i);
        if (ImagePack::is_one(path)) taken([&] { source->read(i, buffer); });  // a list may name any file
      }
  });
}

/// A tar whose headers have the checksums that they should have; a zip as it is.
std::string mended_tar(std::string tar) {
  for (std::size_t at = 0; at + Tar::kBlock <= tar.size(); at += Tar::kBlock)
    if (tar.compare(at + 257, 5, "ustar") == 0) tar.replace(at + 148, 8, Tar::sum_of(tar.substr(at, Tar::kBlock)));
  return tar;
}

/// Photographs, or CIFAR-10, in an archive.
bool archives(FuzzInput input) {
  const std::string path = on_disk(mended_tar(text_of(input)), "input.tar");
  const bool cifar = taken([&] { load_cifar10(path); });
  const bool photos = taken([&] {
    const PhotoDataset data = open_photos(path);
    data.fingerprint();
    std::vector<std::uint8_t> buffer;
    for (const auto& source : {data.train, data.validation})
      for (std::int64_t i = 0; source && i < source->size(); ++i) {
        EXPECT_LT(static_cast<std::size_t>(source->label(i)), data.classes.size());
        taken([&] { source->read(i, buffer); });
      }
  });
  return photos || cifar || !has_libarchive();
}

bool text(FuzzInput input) {
  const std::string path = on_disk(input);
  const bool words = taken([&] {
    const TextDataset data = load_text(path);
    fingerprint(data);
    for (const auto* part : {&data.train, &data.valid, &data.test})
      for (int rank = 0; rank < 2; ++rank)
        for (const auto& streams :
             {TextStreams::training(*part, 3, 2, rank), TextStreams::evaluation(*part, 5, 2, rank)})
          if (streams.length() > 0 && streams.streams() > 0) streams.segment(0, streams.length());
    TextStreams::unread(data.train, 2, 1);
  });
  for (const char* tokens : {"chars", "bpe:300"})
    taken([&] {
      const TextDataset data = load_text(path, Tokens::parse(tokens));
      const std::string train = data.decode(data.train.numbers());
      EXPECT_EQ(data.encode(train), data.train.numbers());
      TextBlocks::training(data.train, {.batch = 2, .length = 9}, 1).batch(3);
      const auto blocks = TextBlocks::evaluation(data.valid, {.batch = 5, .length = 3});
      for (std::int64_t i = 0; i < blocks.batches(); ++i) blocks.batch(i);
    });
  return words;
}

/// Both files of byte pairs, one behind the other: merges.txt begins with its "#version".
bool bpe(FuzzInput input) {
  const std::string bytes = text_of(input);
  const std::size_t cut = std::min(bytes.find("#version"), bytes.size());
  on_disk(bytes.substr(0, cut), "vocab.json");
  on_disk(bytes.substr(cut), "merges.txt");
  return taken([&] {
    const BytePairs pairs = BytePairs::load(folder());
    EXPECT_EQ(pairs.decode(pairs.encode(bytes)), bytes);
  });
}

/// A tokenizer.json, or a .tiktoken.
bool tokenizer(FuzzInput input) {
  const std::string bytes = text_of(input);
  const std::string path = on_disk(bytes, bytes.starts_with('{') ? "tokenizer.json" : "it.tiktoken");
  return taken([&] {
    const BytePairs pairs = BytePairs::load(path);
    EXPECT_EQ(pairs.decode(pairs.encode(bytes)), bytes);
  });
}

/// Numbers of tokens, bare or behind a header.
bool token_numbers(FuzzInput input) {
  const std::string path = on_disk(input, "input.bin");
  bool few = false;  // tokens; a vocabulary of a million takes its time
  const bool read = taken([&] { few = map_token_file(path, 0).largest() < 300; });
  for (const std::string tokens : {"numbers:300", "numbers"})
    if (few || tokens != "numbers")
      taken([&] {
        const TextDataset data = load_text(path, Tokens::parse(tokens));
        fingerprint(data);
        EXPECT_EQ(data.encode(data.decode(data.train.numbers())), data.train.numbers());
      });
  return read;
}

/// CSV, or NumPy's.
bool table(FuzzInput input) {
  const std::string path = on_disk(input);
  const bool numpy = taken([&] { read_npy(path); });
  return taken([&] {
           const Table read = read_csv(path);
           for (const std::string& column : read.columns()) {
             read.classes(column);
             taken([&, c = column] { read.numbers({c}); });
           }
         }) ||
         numpy;
}

bool npz(FuzzInput input) {
  return taken([&] {
    const NpzFile file(on_disk(input));
    for (const std::string& name : file.names()) taken([&] { file.read(name); });
  });
}

// -------------------------------------------------------------------------------------------------- words and settings

bool parsed(const std::vector<std::string>& words, const Program& program) {
  std::vector<const char*> arguments{program.name.c_str()};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return taken([&] { parse_options(static_cast<int>(arguments.size()), arguments.data(), program); });
}
const Program& image_program() {
  static const Program program{.name = "mnist",
                               .summary = "",
                               .options = "--data synthetic --epochs 1 --batch 8 --lr 0.1",
                               .models = {"lenet", "hdc"}};
  return program;
}

bool config(FuzzInput input) { return parsed({"--config", on_disk(input)}, image_program()); }

/// A word a line, the first of them what is trained; --config would read what it names.
bool options(FuzzInput input) {
  std::vector<std::string> words = split(text_of(input), '\n');
  for (std::string& word : words) word = word.substr(0, word.find('\0'));
  const bool texts = words[0] == "texts";
  words.erase(words.begin());
  if (std::ranges::any_of(words, [](const std::string& w) { return w.starts_with("--config"); })) return false;
  return parsed(words, texts ? language_program() : image_program());
}

bool schedule(FuzzInput input) {
  return taken([&] {
    Schedule read = Schedule::parse(text_of(input));
    StateDict state;
    for (const std::int64_t iteration : {0, 1, 1000, 1 << 30}) {
      read.factor(iteration, {.steps_per_epoch = 100, .total_steps = 5000});
      read.end_epoch(1.0);
    }
    read.save(state);
    read.load(state);
  });
}

/// All readers of short texts that need nothing else.
bool values(FuzzInput input) {
  const std::string text = text_of(input), where = "`it`";
  dist::PlanOptions plan;
  int all = 0;
  all += taken([&] { compress::make_codec(text, where); });
  all += taken([&] { compress::selector_kind(text, where); });
  all += taken([&] { dist::set_allreduce(plan, text); });
  all += taken([&] { dist::set_fusion(plan, text); });
  all += taken([&] { dist::set_chunk(plan, text); });
  all += taken([&] { dist::Warmup::parse(text, where).density_in(3, 0.001); });
  all += taken([&] { dist::LinkSpec::parse(text, where).to_string(); });
  all += taken([&] { dist::Allowed::parse(text, where); });
  all += taken([&] { Clip::parse(text, where); });
  all += taken([&] { FileSum::parse(text); });
  all += taken([&] { step_range(text, where); });
  all += taken([&] { shell_words(text, where); });
  all += taken([&] { presets_named(text, where); });
  all += taken([&] { whole<std::int64_t>(text, where, 1), real(text, where, 0, 1, "0.5"); });
  all += is_synthetic(text) && taken([&] { synthetic_sizes(text, {10, 10}, true); });
  all += size_from(text) > 0;
  return all > 1;  // shell_words takes most
}

/// The name of a method, and what is set of it, NAME=TEXT: a line each.
bool method(FuzzInput input) {
  const std::vector<std::string> lines = split(text_of(input), '\n');
  std::vector<std::pair<std::string, std::string>> settings;
  for (std::size_t i = 1; i < lines.size(); ++i)
    settings.emplace_back(lines[i].substr(0, lines[i].find('=')),
                          lines[i].find('=') == std::string::npos ? "" : lines[i].substr(lines[i].find('=') + 1));
  return taken([&] {
    const auto made = dist::method(lines[0], settings);
    EXPECT_FALSE(made->describe({}).empty());
    made->fingerprint();
    made->check({.workers = 2});
  });
}

// ------------------------------------------------------------------------------------------------------- traces, logs

bool trace(FuzzInput input) {
  TraceFile read;
  if (!taken([&] { read = parse_trace(text_of(input)); })) return false;
  for (const auto& [rank, lines] : read.ranks)
    for (const auto& [number, line] : lines) step_starts(line);
  return has_whole_step(read);
}

bool log(FuzzInput input) {
  const std::string path = on_disk(input);
  LogFile file;
  const bool read = taken([&] { file = LogFile::read(path); });
  // What would shorten a step of a model that is known takes seconds to simulate.
  const std::string model = read ? file.run.value("model", "") : "";
  if (read && std::ranges::none_of(models_of_zoo(), [&](const ModelInfo& m) { return m.name == model; }))
    taken([&] { explain({path}); });
  if (!file.plan.is_null()) taken([&] { simulate_options({"--replay", path}); });
  if (!file.ledger.is_null()) taken([&] { simulate_options({"--sync", "layerdrop", "--layer-shares", path}); });
  read_trial(path, path, path, 0);
  last_step(path);
  taken([&] {
    RunInfo info;
    info.first_step = 2;
    JsonLog(path, true).on_start(info);
  });
  return read;
}

/// What mpirun writes, and the exit code that it ends with: the last byte.
bool launch_notes(FuzzInput input) {
  MpirunNotes notes(true);
  std::string said;
  for (const std::string& line : split(text_of(input), '\n')) said += notes.take(line);
  notes.end(input.empty() ? 0 : std::to_integer<int>(input.back()));
  return notes.verdict();
}

// ------------------------------------------------------------------------------------------- messages of other ranks

const compress::Codec* codec_number(unsigned number) {
  static const std::vector<std::unique_ptr<const compress::Codec>> all = [] {
    std::vector<std::unique_ptr<const compress::Codec>> made;
    made.emplace_back();
    for (const compress::CodecKind& kind : compress::codecs())
      taken([&] {
        made.push_back(kind.make(
            kind.example.size() > kind.name.size() ? std::string_view(kind.example).substr(kind.name.size() + 1) : ""));
      });
    return made;
  }();
  return all[number % all.size()].get();
}

/// [how : u8 | elements : u16 | codec : u8 | two messages, each behind its length : u16]
bool slim(FuzzInput input) {
  Front front(input);
  const unsigned how = front.byte();
  const compress::SlimFormat format{.rules = {.alpha = 0.3, .explore = 0.1, .keys_sent = (how & 1u) != 0},
                                    .n = 1 + front.pair() % 3000,
                                    .codec = codec_number(front.byte())};
  compress::SlimReader reader;
  bool any = false;
  for (std::vector<std::byte>& message : front.messages()) {
    // The signature that the keys have, so that damage goes further than there.
    const std::size_t core = compress::core_elements(format.rules, format.n);
    if ((how & 2u) != 0 && message.size() >= 16 + 4 * core) {
      std::vector<std::uint32_t> keys(core);
      if (core > 0) std::memcpy(keys.data(), message.data() + 16, 4 * core);
      const std::uint64_t signature = compress::signature_of(slice(std::as_const(keys)));
      std::memcpy(message.data() + 8, &signature, sizeof signature);
    }
    any |= taken([&] {
      const compress::SlimKey key{.seed = 1, .round = number_at<std::uint32_t>(text_of(message), 0), .who = 1};
      if (!reader.read(format, slice(std::as_const(message)), key)) return;
      std::vector<float> dense(format.n);
      reader.add_to(0.5f, slice(dense));
      reader.overwrite(slice(dense));
      compress::bytes_of(format, slice(std::as_const(message)));
    });
  }
  return any;
}

/// [what : u8 | ranks : u8 | rank : u8 | elements : u16 | codec : u8 | messages, each behind its length : u16]
bool collective(FuzzInput input) {
  using namespace dist;
  Front front(input);
  const unsigned what = front.byte();
  const int N = 2 + static_cast<int>(front.byte() % 5), rank = static_cast<int>(front.byte()) % N;
  const std::size_t n = 1 + front.pair() % 2000;
  const compress::Codec* const codec = codec_number(front.byte());
  Script comm(rank, N);
  comm.messages() = front.messages();
  std::vector<const AllreduceKind*> kinds;
  for (const AllreduceKind& kind : allreduces())
    if (kind.run && kind.carrier == Carrier::messages) kinds.push_back(&kind);

  std::vector<float> x(n, 1.0f);
  std::vector<double> sums(4);
  std::vector<std::string> blobs;
  const std::vector<std::byte> mine(8);
  std::vector<int> others;
  for (int r = 0; r < N; ++r)
    if (r != rank) others.push_back(r);
  Gathered all;
  std::vector<compress::Bytes> parts(static_cast<std::size_t>(N));
  const Leg leg{codec, {}, nullptr};
  constexpr unsigned kOthers = 9;
  return taken([&] {
    switch (const unsigned which = what % (kOthers + static_cast<unsigned>(kinds.size()))) {
      case 0:  // what a rank announces, up to 1 GiB, is believed
        for (const auto& message : comm.messages())
          if (message.size() == 8 && number_at<std::uint64_t>(text_of(message), 0) > 1 << 20) return;
        return run_alone(n % 2 == 0 ? allgather_blobs(comm, "mine", blobs) : gather_blobs(comm, "mine", blobs));
      case 1:
        return run_alone(allgatherv(comm, slice(mine), 500, all));
      case 2:
        return run_alone(ring_allgatherv(comm, slice(mine), 500, all));
      case 3:
        return run_alone(alltoallv(comm, parts, 500, all));
      case 4:
        return run_alone(sum_over_ranks(comm, slice(sums)));
      case 5:
        return run_alone(broadcast(comm, slice(x).bytes(), (rank + 1) % N));
      case 6:
        return run_alone(recv_sum(comm, others, slice(x), leg));
      case 7:
        return run_alone(recv_floats(comm, others[0], slice(x), leg));
      case 8: {
        const SparseWire wire;
        std::vector<compress::SparseView> views;
        run_alone(allgatherv(comm, Slice<const std::byte>(), wire.max_bytes(1 + n / 10, n), all));
        for (int r = 0; r < N; ++r) {
          if (r != rank) wire.read(all[r], n, views, 0);
        }
        return;
      }
      default: {
        const AllreduceKind& kind = *kinds[which - kOthers];
        run_alone(kind.run(comm, slice(x), {.group = std::max(2, kind.least_group), .pieces = 2}, {.codec = codec}));
      }
    }
  });
}

/// What a flight recorder has left: its head, four events of the compute thread, and those of the other one. All behind
/// them are zeros.
bool flight(FuzzInput input) {
  Front front(input);
  std::string bytes(dist::kFlightFileBytes, '\0');
  constexpr std::size_t kHead = sizeof(dist::FlightHeader), kEvent = sizeof(dist::FlightEvent);
  const auto put = [&](std::size_t at, std::size_t most) {
    const std::string part = text_of(front.take(most));
    bytes.replace(at, part.size(), part);
  };
  put(0, kHead), put(kHead, 4 * kEvent), put(kHead + dist::kFlightEvents * kEvent, dist::kFlightEvents * kEvent);
  return taken([&] {
    const dist::Flight read = dist::flight_from(bytes, "this");
    const dist::FlightState state = dist::state_of(read);
    for (const auto& o : state.under_way)
      for (const auto& m : o.awaited) dist::has_sent(read, read.header.rank, o, m);
  });
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> all{{"safetensors", safetensors},
                                           {"weights", weights},
                                           {"weights_index", weights_index},
                                           {"gpt_config", gpt_config},
                                           {"manifest", manifest},
                                           {"plan", plan},
                                           {"parameters", parameters},
                                           {"calibration", calibration},
                                           {"idx", idx},
                                           {"cifar", cifar},
                                           {"images", read_image},
                                           {"photos", photos},
                                           {"archives", archives},
                                           {"text", text},
                                           {"bpe", bpe},
                                           {"tokenizer", tokenizer},
                                           {"token_numbers", token_numbers},
                                           {"table", table},
                                           {"npz", npz},
                                           {"config", config},
                                           {"options", options},
                                           {"schedule", schedule},
                                           {"values", values},
                                           {"method", method},
                                           {"trace", trace},
                                           {"log", log},
                                           {"flight", flight},
                                           {"launch_notes", launch_notes},
                                           {"codec", read_codec_message},
                                           {"sparse", read_sparse_message},
                                           {"slim", slim},
                                           {"collective", collective}};
  return all;
}

}  // namespace laconic
