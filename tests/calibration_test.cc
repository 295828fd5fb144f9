// What ranks and network take: the rate that a stream's arrivals tell, files and the cache, and `laconic calibrate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dist/predict/calibration_file.h"
#include "dist/predict/stream_rate.h"
#include "tests/error_of.h"
#include "tests/program.h"

namespace laconic::dist {
namespace {

using namespace std::chrono_literals;

/// A cable behind a traffic shaper: what its bucket holds passes at a tenfold rate.
struct Cable {
  double bytes_per_second, latency, bucket;
  double filled = bucket;

  /// Every seventh message is noticed late, and with it those that came meanwhile.
  std::vector<double> arrivals(const StreamSize& stream) {
    const double at_once = filled / 0.9;
    std::vector<double> times;
    for (std::size_t i = 1; i <= stream.messages; ++i) {
      const double bytes = static_cast<double>(i * stream.bytes);
      const double sent = bytes <= at_once ? bytes / (10 * bytes_per_second) : (bytes - filled) / bytes_per_second;
      times.push_back(latency + sent);
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double noticed = times[i] + (i % 7 == 3 ? 1e-3 : 0);
      times[i] = i > 0 ? std::max(times[i - 1], noticed) : noticed;
    }
    const double pause = 2 * latency + 1e-3;  // ranks agree on the next stream
    filled = std::min(bucket, bytes_per_second * pause);
    return times;
  }
};

TEST(StreamRate, NeitherBurstNorLatencyNorLateReadersChangeIt) {
  for (const double bits : {1e6, 1e7, 5e7, 1e8, 1e9, 2.5e9})
    for (const double latency : {10e-6, 1e-3, 50e-3})
      for (const double bucket : {0.0, 32e3, 150e3}) {
        Cable cable{.bytes_per_second = bits / 8, .latency = latency, .bucket = bucket};
        StreamSize stream;
        std::vector<double> times;
        std::optional<StreamSize> next = kFirstStream;
        for (int number = 1; next; ++number) {
          stream = *next;
          times = cable.arrivals(stream);
          next = next_stream(number, stream, rate_of(stream, times), long_enough(stream, times));
        }
        EXPECT_NEAR(8 * rate_of(stream, times) / bits, 1, 0.01) << bits << " " << latency << " " << bucket;
        EXPECT_TRUE(long_enough(stream, times)) << bits << " " << latency << " " << bucket;
        if (bits >= 1e7) {
          EXPECT_LT(times.back() - latency, 0.5) << bits << " " << latency << " " << bucket;
        }
      }
}

TEST(StreamRate, StreamsAreNeitherShorterThanTheFirstNorLongerThanMemoryBears) {
  for (double rate = 1; rate < 1e12; rate *= 3) {
    const StreamSize stream = stream_for(rate);
    EXPECT_GE(stream.total(), kFirstStream.total()) << rate;
    EXPECT_LE(stream.total(), std::size_t{64} << 20) << rate;
    EXPECT_GE(stream.messages, kFirstStream.messages) << rate;
    EXPECT_LE(stream.bytes, std::size_t{256} << 10) << rate;
  }
  EXPECT_THROW(rate_of(kFirstStream, std::vector<double>(3)), Error);
}

TEST(StreamRate, TheFirstStreamIsFollowedUnlessItTakesVeryLong) {
  EXPECT_FALSE(next_stream(1, kFirstStream, 1e5, true));
  for (const double rate : {1e6, 1e9}) EXPECT_TRUE(next_stream(1, kFirstStream, rate, true)) << rate;
  EXPECT_FALSE(next_stream(2, stream_for(1e6), 1e6, false)) << "it cannot become longer";
  EXPECT_FALSE(next_stream(2, stream_for(1e8), 1e9, true));
  EXPECT_TRUE(next_stream(2, stream_for(1e8), 1e9, false));
  EXPECT_FALSE(next_stream(kMostStreams, stream_for(1e8), 1e9, false));
}

/// Rates are measured on what an emulated link keeps exactly. Latency includes the threads' own work. A busy machine's
/// readers come late, and then the rate is measured again: a wrong way to measure is never near.
TEST(Calibration, FindsTheLink) {
  WorldOptions world{.workers = 3};
  world.link = LinkOptions{.all = {.bits_per_second = 100'000'000, .latency = 2ms}};
  world.link->of[1] = {.bits_per_second = 40'000'000, .latency = 5ms};
  run_workers(world, [](Worker& worker) {
    const CalibrationOptions options{.codecs = {"bf16"}, .one_way = true, .sizes = {1000}};
    const auto near = [](double bytes_per_second) { return std::abs(8 * bytes_per_second - 40e6) < 4e6; };
    Calibration worst;
    for (int attempt = 0; attempt < 20; ++attempt) {  // every rank holds all figures, so all of them stop at once
      const std::vector<Calibration> all = calibrate(worker, options);
      ASSERT_EQ(all.size(), 3u);
      worst = slowest(all);
      if (near(worst.bytes_per_second) && near(worst.one_way_bytes_per_second)) break;
    }
    EXPECT_EQ(worst.workers, 3);
    EXPECT_NEAR(8 * worst.bytes_per_second, 40e6, 4e6);
    EXPECT_NEAR(8 * worst.one_way_bytes_per_second, 40e6, 4e6);
    EXPECT_GE(worst.latency_seconds, 2e-3);
    EXPECT_GT(worst.work.per_added_byte, 0);
    EXPECT_GT(worst.codecs.at("bf16").encode, 0);
    EXPECT_GE(worst.work.taken_from_computing, 0);
    EXPECT_LE(worst.work.taken_from_computing, 1);
    ASSERT_EQ(worst.sizes.size(), 1u);
    EXPECT_EQ(worst.sizes[0].elements, 1000);
    EXPECT_GT(worst.sizes[0].residual.select, 0);
    EXPECT_GT(worst.sizes[0].codecs.at("bf16").decode, 0);
  });
}

Calibration figures(int workers, double rate) {
  Calibration c{
      .workers = workers, .bytes_per_second = rate, .one_way_bytes_per_second = 2 * rate, .latency_seconds = 1e-4};
  c.work = {.per_added_byte = 1e-10, .per_message = 2e-6, .per_byte = 1e-10, .taken_from_computing = 0.5};
  c.codecs["bf16"] = {.encode = 3e-10, .decode = 2e-10};
  c.sizes = {{.elements = 16384, .residual = {1e-9, 2e-9, 3e-9}, .codecs = c.codecs}};
  return c;
}

TEST(Calibration, WorkTakesAsMuchLongerAsThreadsShareCores) {
  Calibration two = figures(4, 1e8);
  two.threads_per_core = 2;
  const VirtualNetwork alone = figures(4, 1e8).network("bf16"), shared = two.network("bf16");
  for (const Work work : {Work::adding, Work::encoding, Work::decoding})
    EXPECT_EQ(shared.work.of(work), 2 * alone.work.of(work));
  EXPECT_EQ(shared.work.per_message, 2 * alone.work.per_message);
  EXPECT_EQ(shared.work.taken_from_computing, alone.work.taken_from_computing);
  EXPECT_EQ(shared.links.all, alone.links.all);
}

CalibrationFile file_of(int workers) {
  CalibrationFile file{.time = 1'700'000'000};
  for (int r = 0; r < workers; ++r) {
    file.of.push_back("host " + std::to_string(r));
    file.ranks.push_back(figures(workers, 1e8 + r));
  }
  return file;
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(CalibrationFile, ComesBackAsItWasSaved) {
  const TempFolder folder;
  CalibrationFile file = file_of(2);
  file.model = "lenet", file.classes = 7, file.batch = 3;
  file.layers = {{{"conv1", 1, 2, {{"conv1.weight", 150, 0.5, 0.25, 1}}}}, 3.5};
  file.ranks[1].threads_per_core = 2, file.ranks[0].work.per_selected_element = 4e-9;
  file.ranks[0].work.per_gathered_element = 1e-9;
  const std::string path = folder / "deep/down.json";
  file.save(path);
  const CalibrationFile back = CalibrationFile::read(path);
  EXPECT_EQ(back.json(), file.json());
  EXPECT_EQ(back.layers.layers[0].parameters[0].elements, 150);
  EXPECT_EQ(slowest(back.ranks).bytes_per_second, 1e8);
  EXPECT_EQ(slowest(back.ranks).sizes[0].residual.scatter, 3e-9);
  EXPECT_EQ(slowest(back.ranks).threads_per_core, 2);
  EXPECT_EQ(back.ranks[0].work.per_selected_element, 4e-9);
}

TEST(CalibrationFile, WhatIsNoneIsOneSentence) {
  const TempFolder folder;
  const std::string path = folder / "file.json";
  const auto broken = [&](const std::string& text) {
    write(path, text);
    return error_of<DataError>([&] { CalibrationFile::read(path); });
  };
  EXPECT_THAT(error_of<DataError>([&] { CalibrationFile::read(folder / "nowhere"); }),
              testing::HasSubstr("cannot be read"));
  EXPECT_THAT(error_of<DataError>([&] { CalibrationFile::read(folder.path()); }), testing::HasSubstr("cannot be read"));
  for (const char* text : {"", "hello", "{}", "[]", "{\"calibration\":3}", "{\"calibration\":{\"of\":[1],\"time\":0}}"})
    EXPECT_THAT(broken(text), testing::HasSubstr("file.json is no calibration")) << text;
  const std::string whole = file_of(2).json();
  for (std::size_t length = 0; length < whole.size(); length += 7)
    EXPECT_NE(broken(whole.substr(0, length)), "") << length;
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json j = nlohmann::json::parse(whole);
    j[nlohmann::json::json_pointer(pointer)] = value;
    return broken(j.dump());
  };
  EXPECT_THAT(changed("/calibration/ranks/0/bytes_per_second", 0), testing::HasSubstr("bytes_per_second is 0"));
  EXPECT_THAT(changed("/calibration/ranks/1/latency_seconds", -1), testing::HasSubstr("latency_seconds is -1"));
  EXPECT_THAT(changed("/calibration/ranks/1/work/taken_from_computing", 2), testing::HasSubstr("taken_from_computing"));
  EXPECT_THAT(changed("/calibration/ranks/1/threads_per_core", 0.5), testing::HasSubstr("threads_per_core is 0.5"));
  EXPECT_THAT(changed("/calibration/ranks/1/codecs/bf16/encode", -1), testing::HasSubstr("bf16 is -1"));
  EXPECT_THAT(changed("/calibration/ranks/1/sizes/0/elements", 0), testing::HasSubstr("elements is 0"));
  EXPECT_THAT(changed("/calibration/ranks/1/workers", 3), testing::HasSubstr("do not belong together"));
  EXPECT_THAT(changed("/calibration/of", {"one"}), testing::HasSubstr("do not belong together"));
  EXPECT_THAT(changed("/calibration/model", "lenet"), testing::HasSubstr("is no calibration"));
  std::filesystem::resize_file(path, (16 << 20) + 1);
  EXPECT_THAT(error_of<DataError>([&] { CalibrationFile::read(path); }), testing::HasSubstr("too long"));
}

/// A cache of this test's own.
class CalibrationCache : public testing::Test {
 protected:
  CalibrationCache() { ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~CalibrationCache() override { ::unsetenv("XDG_CACHE_HOME"); }

  /// What two workers find there.
  static Calibrated found(const std::string& from, const std::string& here = "here",
                          const std::vector<std::string>& codecs = {}) {
    Calibrated first;
    run_workers({.workers = 2}, [&](Worker& worker) {
      const Calibrated mine = calibrated(worker, {.codecs = codecs}, {.from = from, .here = here});
      if (worker.rank == 0) first = mine;
    });
    return first;
  }
  std::vector<std::string> kept() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      if (entry.is_regular_file()) paths.push_back(entry.path());
    return paths;
  }
  static void change(const std::string& path, const std::function<void(CalibrationFile&)>& how) {
    CalibrationFile file = CalibrationFile::read(path);
    how(file);
    file.save(path);
  }

  const TempFolder folder_;
};

TEST_F(CalibrationCache, IsReadAndWrittenOnlyWhereThatIsAskedFor) {
  EXPECT_EQ(found("measure").from, "");
  EXPECT_TRUE(kept().empty());
  EXPECT_EQ(found("cache").from, "");
  ASSERT_EQ(kept().size(), 1u);
  const std::string path = kept()[0];
  change(path, [](CalibrationFile& file) { file.ranks[1].latency_seconds = 123; });
  EXPECT_EQ(found("measure").from, "");
  const Calibrated again = found("cache");
  EXPECT_EQ(again.from, path);
  ASSERT_EQ(again.ranks.size(), 2u);
  EXPECT_EQ(again.ranks[1].latency_seconds, 123);
}

TEST_F(CalibrationCache, WhatIsOldOrOfOthersOrBrokenIsMeasuredAnew) {
  found("cache");
  ASSERT_EQ(kept().size(), 1u);
  const std::string path = kept()[0];
  for (const std::int64_t hours : {-25, 1})  // the second is still to come
    for (const char* codec : {"none", "bf16"}) {
      change(path, [&](CalibrationFile& file) { file.time += 3600 * hours; });
      EXPECT_EQ(found("cache", "here", {codec}).from, "") << hours << " " << codec;
      EXPECT_EQ(found("cache", "here", {codec}).from, path) << hours << " " << codec;
    }
  EXPECT_EQ(found("cache", "here", {"fp16"}).from, "") << "the codec's speed is not known";
  change(path, [](CalibrationFile& file) { file.of[1] += "!"; });
  EXPECT_EQ(found("cache").from, "");
  EXPECT_EQ(found("cache", "another build").from, "");
  EXPECT_EQ(kept().size(), 2u);
  write(path, "{\"calibration\":");
  testing::internal::CaptureStderr();
  EXPECT_EQ(found("cache").from, "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("is no calibration"), testing::HasSubstr("measured anew.\n")));
  EXPECT_EQ(found("cache").from, path) << "it was written again";
}

TEST_F(CalibrationCache, NoPlaceForItIsNoReasonToStop) {
  ::setenv("XDG_CACHE_HOME", "/dev/null", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(found("cache").ranks.size(), 2u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("what was measured is not kept"));
}

TEST_F(CalibrationCache, ANamedFileIsTakenAsItIs) {
  const std::string path = folder_ / "mine.json";
  file_of(2).save(path);
  const Calibrated mine = found(path, "here", {"bf16", "fp16"});
  EXPECT_EQ(mine.from, path);
  EXPECT_EQ(mine.ranks[1].bytes_per_second, 1e8 + 1);
  EXPECT_EQ(mine.ranks[1].codecs.at("bf16").encode, 3e-10);
  EXPECT_GT(mine.ranks[1].codecs.at("fp16").encode, 0) << "measured, as the file has none";
  file_of(3).save(path);
  expect_error<Error>([&] { found(path); }, {"mine.json has figures of 3 workers, and these are 2"});
}

TEST(Calibrate, SavesWhatSimulationsAndPlansGoBy) {
  const TempFolder folder;
  const std::string file = folder / "here.json";
  const std::string command =
      "laconic calibrate --workers 2 --link 100mbit,1ms --threads 1 --codecs bf16 --sizes 1000,2000 "
      "--model lenet --batch 4 --steps 1 --save " +
      file;
  const Result told = run(command);
  ASSERT_EQ(told.exit_code, 0) << told.err;
  for (const char* part : {"2 workers, 1 thread each", "Mbit/s both ways", "gather into the residual", "encode bf16",
                           "lenet, batch 4", "conv1", "saved: "})
    EXPECT_THAT(told.out, testing::HasSubstr(part));
  const Result json = run(command + " --json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const nlohmann::json j = nlohmann::json::parse(json.out)["calibration"];
  EXPECT_EQ(j["ranks"].size(), 2u);
  EXPECT_EQ(j["ranks"][0]["sizes"][1]["elements"], 2000);
  EXPECT_EQ(file_text(file), json.out);

  const Result simulated = run("laconic simulate --json --calibration " + file);
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  const nlohmann::json row = nlohmann::json::parse(simulated.out)["rows"][0];
  EXPECT_EQ(row["workers"], 2);
  double rate = 0;  // the largest that was found: a reader that comes late finds too much
  for (const nlohmann::json& rank : j["ranks"]) rate = std::max(rate, rank["bytes_per_second"].get<double>());
  EXPECT_GT(row["step_ms"], 1e3 * 4 * 61'706 / (1.05 * rate)) << "the wire alone";
  const Result other = run("laconic simulate --json --model hdc --compute gflops:10 --calibration " + file);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  const Result refused = run("laconic simulate --batch 8 --calibration " + file);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, testing::HasSubstr("computing is that of the calibration (--batch)"));

  const std::string train =
      "mnist --data synthetic:64,64 --threads 1 --batch 4 --steps 1 --eval-every 0 --plan auto "
      "--calibration " +
      file + " --workers ";
  const Result trained = run(train + "2");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, testing::HasSubstr("(from " + file + ")"));
  // So does a method whose plan asks what the network is like.
  const std::string choose =
      "mnist --data synthetic:64,64 --threads 1 --batch 4 --steps 1 --eval-every 0 --sync redsync "
      "--selector auto --calibration " +
      file + " --workers ";
  EXPECT_EQ(run(choose + "2").exit_code, 0);
  for (const std::string& by : {train, choose}) {
    const Result three = run(by + "3");
    EXPECT_EQ(three.exit_code, 1) << by;
    EXPECT_THAT(three.err, testing::HasSubstr("has figures of 2 workers, and these are 3 (--calibration)")) << by;
  }
}

TEST(Calibrate, HelpNamesItsOptions) {
  const std::string help = run("laconic calibrate --help").out;
  for (const char* option : {"--workers", "--link", "--threads", "--codecs", "--sizes", "--model", "--batch",
                             "--classes", "--steps", "--save", "--json", "--markdown"})
    EXPECT_THAT(help, testing::HasSubstr(option));
}

TEST(Calibrate, WhatMakesNoSenseIsOneSentence) {
  for (const auto& [command, sentence] :
       {std::pair{"laconic calibrate --workers 0", "(--workers)"},
        {"laconic calibrate --link fast", "is not a link (--link)"},
        {"laconic calibrate --link 1gbit,1ms", "--workers"},
        {"laconic calibrate --codecs fp17", "(--codecs)"},
        {"laconic calibrate --sizes 16384,x", "(--sizes)"},
        {"laconic calibrate --sizes 999999999999", "999999999999 is too much (--sizes): give at most 268435456"},
        {"laconic calibrate --batch 8", "without a model no layers are timed (--batch)"},
        {"laconic calibrate --model lenett", "unknown model 'lenett'"},
        {"laconic simulate --replay a --calibration b", "both say what was measured (--replay and --calibration)"},
        {"mnist --data synthetic --calibration cache",
         "only --plan auto goes by what the network is like (--calibration)"}}) {
    const Result result = run(command);
    EXPECT_THAT(result.exit_code, testing::AnyOf(1, 2)) << command;
    EXPECT_THAT(result.err, testing::HasSubstr(sentence)) << command;
  }
}

}  // namespace
}  // namespace laconic::dist
