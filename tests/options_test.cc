#include "apps/training/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "apps/training/device_options.h"
#include "apps/common/machine.h"
#include "apps/training/task.h"
#include "apps/common/text.h"
#include "core/dispatch.h"
#include "core/base/processor.h"
#include "core/stream.h"
#include "data/synthetic.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/parsed_options.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using namespace parsed_options;

TEST(Options, WithoutArgumentsAreTheAppsDefaults) {
  const TrainOptions o = parse({});
  EXPECT_EQ(o.model, "lenet");
  EXPECT_EQ(o.data, "somewhere");
  EXPECT_EQ(o.trainer.epochs, 10);
  EXPECT_EQ(o.batch, 64);
  EXPECT_FLOAT_EQ(*o.lr, 0.1f);
  EXPECT_EQ(o.sync, "allreduce");
  EXPECT_EQ(dist::to_string(o.trainer.plan), "ring, lazy:1MiB, chunks of 4MiB");
  EXPECT_EQ(o.trainer.overlap, dist::Overlap::forward);
  EXPECT_EQ(o.trainer.plan_file, "");
  EXPECT_TRUE(o.trainer.mean);
  EXPECT_EQ(o.timeout, 300);
  EXPECT_EQ(o.trainer.clip.kind, Clip::Kind::none);
  EXPECT_FALSE(o.workers || o.trainer.steps || o.trainer.audit_every || o.trainer.save_every || o.resume);
}

TEST(Options, TheRateIsScaledByWorkersAndNotByServers) {
  const auto rate = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.end(), {"--lr-per-256", "0.1", "--batch", "64"});
    return *parse(arguments).lr;
  };
  EXPECT_FLOAT_EQ(rate({"--workers", "4"}), 0.1f);
  EXPECT_FLOAT_EQ(rate({"--workers", "4", "--sync", "ps", "--servers", "2"}), 0.1f);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);  // as mpirun does
  EXPECT_FLOAT_EQ(rate({}), 0.1f);
  EXPECT_FLOAT_EQ(rate({"--sync", "ps"}), 0.075f) << "one of the four ranks serves";
  EXPECT_FLOAT_EQ(rate({"--sync", "ps", "--servers", "2"}), 0.05f);
  EXPECT_FLOAT_EQ(rate({"--sync", "ps", "--servers", "colocated"}), 0.1f);
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

RunInfo info_of(const Program& program, const TrainOptions& options) {
  RunInfo info;
  dist::run_workers({.workers = 1}, [&](dist::Worker& worker) {
    make_image_task(program, options)->workload(options, worker)->describe(info);
  });
  return info;
}

TEST(Options, AProgramMayHaveAModelAndDataOfItsOwn) {
  models_of_zoo().push_back({.name = "own", .input = {1, 28, 28}, .build = model_info("hdc").build});
  image_datasets().push_back({.name = "marks", .folder = "somewhere/marks", .load = [](const std::string& folder) {
                                EXPECT_EQ(folder, "here");
                                return synthetic_mnist({20, 10});
                              }});
  Program own = program();
  own.options = "--lr 0.1", own.models = {"own"}, own.images = "marks";
  const auto parsed = [&](std::vector<const char*> words) {
    words.insert(words.begin(), "own");
    return parse_options(static_cast<int>(words.size()), words.data(), own).value();
  };
  EXPECT_EQ(parsed({}).data, "somewhere/marks");
  for (const char* data : {"here", "marks:here"}) {
    const TrainOptions o = parsed({"--data", data});
    const RunInfo info = info_of(own, o);
    EXPECT_EQ(info.train_samples, 20) << data;
  }
  models_of_zoo().pop_back(), image_datasets().pop_back();
  own.images = "mraks";
  EXPECT_THROW(parsed({}), UsageError);
}

TEST(Options, AFolderOfDigitsIsToldByItsName) {
  const TempFolder folder;
  Program mnist = program();
  mnist.images = "fashion-mnist";
  for (const auto& [name, data] :
       {std::pair<std::string, std::string>{"digits", "mnist"}, {"Fashion", "fashion-mnist"}}) {
    for (const std::string part : {"train", "t10k"}) {
      std::vector<std::uint8_t> images{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28};
      images.resize(images.size() + 784, 7);
      folder.write(name + "/" + part + "-images-idx3-ubyte", images);
      folder.write(name + "/" + part + "-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 1, 3});
    }
    TrainOptions o = parse({});
    o.data = folder / name, o.batch = 1;
    const RunInfo info = info_of(mnist, o);
    EXPECT_EQ(info.data.substr(0, info.data.find(',')), data);
  }
}

TEST(Options, APresetIsOnlyDefaults) {
  const TrainOptions hdc = parse({"--preset", "inceptionn-hdc"});
  EXPECT_EQ(hdc.model, "hdc");
  EXPECT_EQ(hdc.batch, 25);
  EXPECT_FLOAT_EQ(*hdc.lr, 0.1f);
  EXPECT_EQ(hdc.trainer.schedule.text(), "step:2000it,0.2");
  EXPECT_FLOAT_EQ(hdc.momentum, 0.9f);
  EXPECT_FLOAT_EQ(hdc.weight_decay, 5e-5f);
  EXPECT_EQ(hdc.trainer.steps, 10000);
  const TrainOptions other = parse({"--batch", "8", "--preset", "inceptionn-hdc", "--lr=0.5", "--epochs", "2"});
  EXPECT_EQ(other.batch, 8);
  EXPECT_FLOAT_EQ(*other.lr, 0.5f);
  EXPECT_EQ(other.trainer.epochs, 2);
  EXPECT_FALSE(other.trainer.steps);
  EXPECT_EQ(other.weight_decay, 5e-5f);

  const TrainOptions ring = parse({"--preset", "INC+C"});
  EXPECT_EQ(ring.sync, "allreduce");
  EXPECT_EQ(ring.trainer.plan.codec, "inceptionn:2^-10");
  EXPECT_EQ(parse({"--preset", "INC+C", "--codec", "none"}).trainer.plan.codec, "none");
  EXPECT_EQ(parse({"--preset", "INC+C,inceptionn-hdc"}).batch, 25);
  EXPECT_EQ(parse({"--preset", "INC+C", "--preset", "inceptionn-hdc"}).trainer.plan.codec, "inceptionn:2^-10");
  EXPECT_EQ(parse({"--preset", "redsync-alexnet"}).sync, "redsync");
  const TrainOptions server = parse({"--preset", "WA", "--workers", "2"});
  EXPECT_EQ(server.sync, "ps");
  EXPECT_EQ(server.servers, 1);
  EXPECT_FALSE(parse({"--preset", "WA", "--sync", "allreduce"}).servers);

  EXPECT_EQ(parse({"--preset", "inceptionn-vgg", "--model", "lenet"}).trainer.steps, 370000);
  for (const auto& [preset, batch, steps] :
       {std::tuple{"shakespeare-char", 64, 5000}, {"shakespeare-char-cpu", 12, 2000}}) {
    const char* words[] = {"gpt", "--preset", preset};
    const TrainOptions gpt = parse_options(3, words, gpt_program()).value();
    EXPECT_EQ(gpt.batch, batch) << "the recipe is that of the preset's model";
    EXPECT_EQ(gpt.trainer.steps, steps);
  }
  for (const char* model : {"resnet50", "resnet56"}) {  // ImageNet's, where a program has it
    Program one = program();
    one.models = {"lenet", model};
    const char* words[] = {"program", "--preset", "inceptionn-resnet"};
    EXPECT_EQ(parse_options(3, words, one)->model, model);
  }
  expect_refused(
      {"--preset", "inceptionn-vgg"},
      "inceptionn-vgg is for vgg16, which mnist does not have (--preset): name another with --model, or take "
      "another program");
  expect_refused({"--preset", "INC-C"},
                 "unknown preset 'INC-C' (--preset): did you mean INC+C? There are WA, WA+C, INC, INC+C, "
                 "redsync-alexnet, inceptionn-alexnet, inceptionn-hdc, inceptionn-resnet, inceptionn-vgg, "
                 "shakespeare-char-cpu, shakespeare-char.");
}

TEST(Options, ACodecIsForAllreducesOfOurOwn) {
  EXPECT_EQ(parse({"--codec", "inceptionn:2^-10"}).trainer.plan.codec, "inceptionn:2^-10");
  EXPECT_TRUE(parse({"--codec", "qsgd:8:512", "--codec-feedback"}).trainer.codec_feedback);
  expect_refused({"--codec", "fp16", "--sync", "redsync"},
                 "--sync redsync adds up nothing that could pass through it (--codec): leave it out, or take --sync "
                 "allreduce");
  EXPECT_EQ(parse({"--codec", "fp16", "--allreduce", "nccl"}).trainer.plan.codec, "fp16");
  EXPECT_TRUE(parse({"--codec", "onebit", "--allreduce", "nccl"}).trainer.codec_feedback);
  expect_refused({"--codec-feedback"},
                 "without a codec nothing is lost (--codec-feedback): add --codec, or leave it out");
  expect_refused({"--codec", "trunc"}, "unknown value 'trunc' (--codec): give the bits to cut off, as trunc:16");
}

TEST(Options, PacketsAreMarkedWithACodecOrOnRequest) {
  EXPECT_EQ(parse({}).type_of_service, std::nullopt);
  EXPECT_EQ(parse({"--codec", "fp16"}).type_of_service, 0x28);
  EXPECT_EQ(parse({"--codec", "fp16", "--tos", "none"}).type_of_service, std::nullopt);
  expect_refused({"--tos", "8"},
                 "messages between threads are no packets (--tos): start processes with "
                 "`laconic launch`, or leave it out");
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_EQ(parse({"--tos", "0x10"}).type_of_service, 16);
  EXPECT_EQ(parse({"--tos", "8"}).type_of_service, 8);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  for (const char* text : {"256", "0x", "-1", "x28", "0x-1"})
    expect_refused({"--tos", text},
                   concat("'", text, "' is no type of service (--tos): give a byte, as 0x28, or none"));
}

TEST(Options, ThatOthersLeaveWithoutEffectAreRefused) {
  EXPECT_EQ(parse({"--plan", "p.json", "--overlap", "none"}).trainer.plan_file, "p.json");
  EXPECT_EQ(parse({"--sync", "none"}).sync, "none");
  for (const auto& words : {std::vector{"--momentum", "0.5"}, {"--nesterov"}})
    for (const char* optimizer : {"adam", "adamw"}) {
      std::vector<const char*> all{"--optimizer", optimizer};
      all.insert(all.end(), words.begin(), words.end());
      expect_refused(all, concat("--optimizer ", optimizer, " has no use for it (", words[0],
                                 "): leave it out, or take --optimizer sgd"));
    }
  for (const auto& words : {std::vector{"--audit"},
                            {"--allreduce", "ring"},
                            {"--overlap", "none"},
                            {"--fusion", "none"},
                            {"--chunk", "none"},
                            {"--plan", "p.json"},
                            {"--reduce", "sum"}}) {
    std::vector<const char*> all{"--sync", "none"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(all,
                   concat("--sync none has no use for it (", words[0], "): leave it out, or take --sync allreduce"));
  }
  for (const auto& [name, value] :
       {std::pair{"--allreduce", "ring"}, {"--fusion", "none"}, {"--chunk", "none"}, {"--codec", "fp16"}})
    expect_refused({"--plan", "p.json", name, value},
                   concat("a plan says what travels how (", name, "): leave it out, or --plan"));
  EXPECT_TRUE(parse({"--plan", "auto", "--allow", "16bit"}).trainer.allowed.sixteen_bits);
  EXPECT_EQ(parse({"--plan", "auto", "--allow", "sparse:0.02,16bit"}).trainer.allowed.methods[0].method->name(), "redsync");
  expect_refused({"--plan", "auto", "--allow", "sparse", "--optimizer", "adam"},
                 "--allow may take --sync redsync, and --sync redsync corrects the momentum of sgd on every "
                 "worker, adam has none of that kind (--optimizer): take --optimizer sgd, or --sync topk");
  expect_refused({"--plan", "auto", "--allow", "sparse:0"},
                 "no elements are nothing to send (--allow): give a share, as sparse:0.001");
  expect_refused({"--plan", "p.json", "--allow", "16bit"},
                 "only --plan auto chooses (--allow): leave it out, or add --plan auto");
  expect_refused({"--plan", "auto", "--allow", "servers"},
                 "'servers' is nothing that a plan may do (--allow): give exact, or 16bit, bounded:2^-E, sparse and rounds "
                 "with commas");
  for (const auto& words : {std::vector{"--trace", "t"}, {"--dump-gradients", "d"}}) {
    std::vector<const char*> all{"--eval-only", "--init", "w"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(all, concat("--eval-only makes no step (", words[0], "): leave one of the two out"));
  }
}

TEST(Options, MoreThanTheCoresCanBearIsRefused) {
  const auto cores = static_cast<unsigned>(cpu::available_cores());
  const std::string these = concat(cores, " core", cores == 1 ? "" : "s");
  const unsigned threads = std::max(64u, 4 * cores), ranks = std::max(64u, 64 * cores);
  for (const char* option : {"--threads", "--data-threads"})
    expect_refused({option, "100000"},
                   concat("100000 threads are more than ", these, " can use (", option, "): give at most ", threads));
  expect_refused({"--workers", "200000"}, concat("200000 workers are more than ", these,
                                                 " can bear in one process (--workers): give at most ", ranks));
  expect_refused({"--sync", "ps", "--servers", "2147483647", "--workers", "2147483647"},
                 concat("4294967294 workers and servers are more than ", these,
                        " can bear in one process (--workers): give at most ", ranks));
  expect_refused({"--sync", "ps", "--servers", "200000"},
                 concat("200001 workers and servers are more than ", these,
                        " can bear in one process (--servers): give at most ", ranks));
  EXPECT_EQ(parse({"--threads", "64", "--data-threads", "64", "--workers", "64"}).workers, 64);
  EXPECT_GT(memory_available(), std::uint64_t{1} << 20);
}

TEST(Options, AdamStartsFromALearningRateOfItsOwn) {
  EXPECT_FLOAT_EQ(*parse({"--optimizer", "adam"}).lr, 0.001f);
  EXPECT_FLOAT_EQ(*parse({"--optimizer", "adamw", "--lr", "0.01"}).lr, 0.01f);
}

TEST(Options, EveryOptionIsRead) {
  const TrainOptions o = parse({"--model",
                                "hdc",
                                "--data",
                                "synthetic",
                                "--init",
                                "w.safetensors",
                                "--no-shuffle",
                                "--no-augment",
                                "--no-dropout",
                                "--epochs",
                                "3",
                                "--steps",
                                "50",
                                "--batch",
                                "16",
                                "--optimizer",
                                "sgd",
                                "--lr",
                                "5e-4",
                                "--momentum",
                                ".5",
                                "--nesterov",
                                "--weight-decay",
                                "0.01",
                                "--no-decay-norm-bias",
                                "--label-smoothing",
                                "0.1",
                                "--clip",
                                "norm:2.5",
                                "--schedule",
                                "warmup:2+cosine",
                                "--accumulate",
                                "2",
                                "--seed",
                                "18446744073709551615",
                                "--on-nan",
                                "skip",
                                "--repeat",
                                "3",
                                "--workers",
                                "4",
                                "--threads",
                                "2",
                                "--data-threads",
                                "0",
                                "--device",
                                "cpu",
                                "--sync",
                                "allreduce",
                                "--allreduce",
                                "butterfly",
                                "--overlap",
                                "backward",
                                "--fusion",
                                "copy:25MiB",
                                "--chunk",
                                "8MiB",
                                "--reduce",
                                "sum",
                                "--audit",
                                "10",
                                "--link",
                                "100mbit,1ms,10us",
                                "--link-of",
                                "2=10mbit,5ms",
                                "--link-of",
                                "3=1gbit,0",
                                "--timeout",
                                "2.5",
                                "--save",
                                "out",
                                "--save-every",
                                "200it",
                                "--log",
                                "l.jsonl",
                                "--trace",
                                "t.json",
                                "--quiet",
                                "--json",
                                "--dry-run"});
  EXPECT_EQ(o.model, "hdc");
  EXPECT_EQ(o.data, "synthetic");
  EXPECT_EQ(o.trainer.init, "w.safetensors");
  EXPECT_TRUE(o.no_augment && o.trainer.optimizer.nesterov);
  EXPECT_FALSE(o.images.shuffle || o.trainer.dropout || o.trainer.optimizer.decay.norm_and_bias);
  EXPECT_EQ(o.trainer.epochs, 3);
  EXPECT_EQ(o.trainer.steps, 50);
  EXPECT_EQ(o.batch, 16);
  EXPECT_EQ(o.trainer.optimizer.name, "sgd");
  EXPECT_FLOAT_EQ(*o.lr, 5e-4f);
  EXPECT_FLOAT_EQ(o.momentum, 0.5f);
  EXPECT_FLOAT_EQ(o.weight_decay, 0.01f);
  EXPECT_FLOAT_EQ(o.images.label_smoothing, 0.1f);
  EXPECT_EQ(o.trainer.clip.kind, Clip::Kind::norm);
  EXPECT_FLOAT_EQ(o.trainer.clip.limit, 2.5f);
  EXPECT_EQ(o.trainer.schedule.text(), "warmup:2+cosine");
  EXPECT_EQ(o.trainer.accumulate, 2);
  EXPECT_EQ(o.trainer.seed, 18446744073709551615u);
  EXPECT_TRUE(o.trainer.skip_nan);
  EXPECT_EQ(o.repeat, 3);
  EXPECT_EQ(o.workers, 4);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.images.data_threads, 0);
  EXPECT_EQ(o.sync, "allreduce");
  EXPECT_EQ(dist::to_string(o.trainer.plan), "butterfly, copy:25MiB, chunks of 8MiB");
  EXPECT_EQ(o.trainer.overlap, dist::Overlap::backward);
  EXPECT_FALSE(o.trainer.mean);
  EXPECT_EQ(o.trainer.audit_every, 10);
  EXPECT_EQ(o.timeout, 2.5);
  EXPECT_EQ(o.link->to_string(), "100 Mbit/s, 1 ms + 0 to 10 us");
  EXPECT_EQ(o.link_of.size(), 2u);
  EXPECT_EQ(o.link_of.at(2).to_string(), "10 Mbit/s, 5 ms");
  EXPECT_EQ(o.trainer.save, "out");
  EXPECT_EQ(o.trainer.save_every->count, 200);
  EXPECT_TRUE(o.trainer.save_every->in_steps);
  EXPECT_EQ(o.log, "l.jsonl");
  EXPECT_EQ(o.trace, "t.json");
  EXPECT_TRUE(o.quiet && o.json && o.dry_run);
}

TEST(Options, ResumeAndAuditMayStandWithoutAValue) {
  TrainOptions o = parse({"--audit", "--save", "out", "--resume", "--eval-only"});
  EXPECT_EQ(o.trainer.audit_every, 1);
  EXPECT_TRUE(o.resume);
  EXPECT_EQ(o.resume_path, "");
  EXPECT_TRUE(o.eval_only);
  o = parse({"--resume", "out/step-5"});
  EXPECT_EQ(o.resume_path, "out/step-5");
}

TEST(Options, TheLastOfTwoCounts) {
  const TrainOptions o = parse({"--epochs", "3", "--lr=1", "--epochs", "5", "--clip", "value:1", "--lr", "0.5"});
  EXPECT_EQ(o.trainer.epochs, 5);
  EXPECT_FLOAT_EQ(*o.lr, 0.5f);
  EXPECT_EQ(o.trainer.clip.kind, Clip::Kind::value);
}

TEST(Options, WhatIsWrongIsSaidWithWhereAndWhatToDo) {
  expect_refused({"--epoch", "3"}, "unknown option '--epoch' (command line): did you mean --epochs? See --help");
  expect_refused({"--wrkers=3"}, "unknown option '--wrkers' (command line): did you mean --workers? See --help");
  expect_refused({"--xyzzyplugh"}, "unknown option '--xyzzyplugh' (command line): see --help");
  expect_refused({"extra"}, "'extra' belongs to no option (command line): options look like --epochs 3; see --help");
  expect_refused({"--lr"}, "a value is missing (--lr): give one; see --help");
  expect_refused({"--model", "lenett"}, "unknown model 'lenett' (--model): did you mean lenet? There are lenet, hdc.");
  expect_refused({"--allreduce", "hybird"},
                 "unknown value 'hybird' (--allreduce): did you mean hybrid? There are ring, butterfly, doubling, "
                 "hierarchical:G, ring-tree:G, tree:G, nccl, hybrid, hybrid-printed.");
  expect_refused({"--allreduce", "hierarchical"},
                 "unknown value 'hierarchical' (--allreduce): give the size of a group, as hierarchical:2");
  expect_refused({"--allreduce", "ring-tree:1"},
                 "unknown value 'ring-tree:1' (--allreduce): give the size of a group, as ring-tree:2");
  expect_refused({"--allreduce", "tree"}, "unknown value 'tree' (--allreduce): give the size of a group, as tree:2");
  expect_refused({"--overlap", "forwards"},
                 "unknown value 'forwards' (--overlap): did you mean forward? There are none, backward, forward.");
  expect_refused({"--fusion", "lazy"},
                 "unknown value 'lazy' (--fusion): give none, lazy:SIZE or copy:SIZE, as lazy:1MiB or copy:25MB");
  expect_refused({"--chunk", "big"}, "unknown value 'big' (--chunk): give none or a size, as 4MiB");
  expect_refused(
      {"--sync", "redsink"},
      "unknown value 'redsink' (--sync): did you mean redsync? There are none, allreduce, redsync, dgc, topk, "
      "gradient-dropping, adacomp, strom, randomk, powersgd, signsgd, demo, onebit-adam, ef21, ps, layerdrop, slimdp, "
      "rounds.");
  expect_refused({"--batch", "0"}, "'0' is not a whole number of at least 1 (--batch): give one, as --batch 4");
  expect_refused({"--batch", "4.5"}, "'4.5' is not a whole number of at least 1 (--batch): give one, as --batch 4");
  expect_refused({"--batch", "99999999999"}, "99999999999 is too much (--batch): give at most 2147483647");
  for (const char* option : {"--accumulate", "--epochs", "--steps", "--epoch-steps", "--eval-every", "--audit"})
    expect_refused({option, "9223372036854775807"},
                   concat("9223372036854775807 is too much (", option, "): give at most 1000000000"));
  expect_refused({"--save-every", "1000000001it"}, "1000000001 is too much (--save-every): give at most 1000000000");
  expect_refused({"--lr", "1e39"}, "1e39 is out of range (--lr): give at most 3.4e+38");
  expect_refused({"--lr", "-1"}, "-1 is out of range (--lr): give a number of at least 0, as --lr 0.1");
  expect_refused({"--lr", "nan"}, "'nan' is not a number (--lr): give one, as --lr 0.1");
  expect_refused({"--momentum", "2"}, "2 is out of range (--momentum): give a number from 0 to 1, as --momentum 0.9");
  expect_refused({"--clip", "norm:0"},
                 "'norm:0' is not a clipping rule (--clip): give norm:X or value:X with X above 0, as norm:5, or none");
  expect_refused({"--save-every", "2ep", "--save", "x"},
                 "'2ep' is not a period (--save-every): give epochs, as 2, or steps, as 200it");
  for (const char* unknown : {"tpu", "cuda:", "cuda:-1", "cuda1"})
    expect_refused({"--device", unknown}, concat("unknown device '", unknown, "' (--device): ",
                                                 kCudaBuilt ? "give cpu, cuda or cuda:0" : "this build has cpu"));
  const int devices = cuda_devices();
  expect_refused({"--device", "cuda:99"},
                 !kCudaBuilt    ? "this build has no CUDA (--device): use --device cpu, or configure it with "
                                  "-Dcuda=enabled, which says what is missing"
                 : devices == 0 ? concat("no CUDA device can be used here: ", why_no_cuda_device(),
                                         " (--device): use --device cpu")
                 : devices == 1 ? "there is no cuda:99 (--device): give cuda:0"
                                : concat("there is no cuda:99 (--device): the last is cuda:", devices - 1));
  expect_refused({"--log", ""}, "the value is empty (--log): give one, or leave it out");
}

TEST(Options, PrecisionIsOfDevices) {
  expect_refused({"--precision", "fp16"},
                 "unknown value 'fp16' (--precision): did you mean fp32? There are fp32, tf32, bf16.");
  expect_refused({"--precision", "bf16"},
                 "the CPU computes in fp32 only (--precision): add --device cuda, or leave it out");
  EXPECT_EQ(parse({"--precision", "fp32"}).precision, "fp32");
  if (cuda_devices() == 0) return;
  EXPECT_EQ(parse({"--precision", "tf32", "--device", "cuda"}).precision, "tf32");
}

TEST(Options, ProcessesTakeDevicesInTurnsAndWorkersOfOneShareTheFirst) {
  NEEDS_CUDA();
  EXPECT_EQ(device_named(parse({"--device", "cuda"}).device), (Device{Device::Kind::cuda, 0}));
  EXPECT_EQ(device_named(parse({"--device", "cuda:0"}).device), (Device{Device::Kind::cuda, 0}));
  EXPECT_EQ(device_named(parse({}).device), kCpu);
  const char* const launchers[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PMIX_LOCAL_RANK",
                                   "SLURM_LOCALID"};
  for (const char* launcher : launchers) {
    for (int rank = 0; rank < 5; ++rank) {
      setenv(launcher, std::to_string(rank).c_str(), 1);
      EXPECT_EQ(device_named("cuda"), (Device{Device::Kind::cuda, rank % cuda_devices()})) << launcher;
      EXPECT_EQ(device_named("cuda:0"), (Device{Device::Kind::cuda, 0}));
    }
    unsetenv(launcher);
  }
  setenv("SLURM_LOCALID", "0", 1);  // of the batch step, in which mpirun started ranks
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  EXPECT_EQ(device_named("cuda"), (Device{Device::Kind::cuda, 1 % cuda_devices()}));
  for (const char* launcher : launchers) unsetenv(launcher);
}

TEST(Options, CombinationsThatMakeNoSenseAreRefused) {
  expect_refused({"--resume"},
                 "there is no place to resume from (--resume): give a checkpoint, or --save DIR to take its newest");
  expect_refused({"--save-every", "2"}, "there is no place to save to (--save-every): add --save DIR");
  expect_refused(
      {"--workers", "4", "--link", "fast"},
      "'fast' is not a link (--link): give RATE,LATENCY or RATE,LATENCY,JITTER, as 100mbit,1ms or 1gbit,50us,10us");
  expect_refused({"--link", "1gbit,50us"}, "one worker has nobody to talk to (--link): add --workers 4");
  expect_refused({"--workers", "4", "--link-of", "2=1gbit,50us"},
                 "there is no link to make an exception from (--link-of): add --link, as --link 100mbit,1ms");
  expect_refused({"--workers", "4", "--link", "1gbit,1ms", "--link-of", "1gbit,50us"},
                 "'1gbit,50us' names no worker (--link-of): give RANK=RATE,LATENCY, as 2=10mbit,5ms");
  expect_refused({"--workers", "4", "--link", "1gbit,1ms", "--link-of", "4=1gbit,50us"},
                 "there is no worker 4 (--link-of): ranks are 0 to 3");
  expect_refused({"--workers", "4", "--ranks-per-host", "2", "--link-between", "1gbit,50us"},
                 "no network is emulated inside the hosts (--ranks-per-host and --link-between): add --link, as --link "
                 "100gbit,2us");
  expect_refused({"--workers", "4", "--link", "1gbit,1ms", "--ranks-per-host", "2"},
                 "nothing joins the hosts (--ranks-per-host): add --link-between RATE,LATENCY, as 1gbit,50us");
  expect_refused({"--workers", "4", "--link", "1gbit,1ms", "--link-between", "1gbit,50us"},
                 "there are no hosts to join (--link-between): add --ranks-per-host G, as 4");
  expect_refused({"--eval-only"}, "there are no weights to measure (--eval-only): add --init FILE or --resume PATH");
  expect_refused({"--resume", "a", "--init", "b"},
                 "weights come from a checkpoint or from a file (--resume and --init): leave one of them out");
}

TEST(Options, AFileOfOptionsHasTheSameNamesAndTheCommandLineWins) {
  TempFolder dir;
  const std::string path = dir.path() + "/run.toml";
  std::ofstream(path) << "model = \"hdc\"\nepochs = 7\nlr = 0.25\nnesterov = true\nschedule = \"step:2,0.1\"\n";
  const TrainOptions o = parse({"--config", path.c_str(), "--lr", "0.5"});
  EXPECT_EQ(o.model, "hdc");
  EXPECT_EQ(o.trainer.epochs, 7);
  EXPECT_FLOAT_EQ(*o.lr, 0.5f);
  EXPECT_TRUE(o.trainer.optimizer.nesterov);
  EXPECT_EQ(o.trainer.schedule.text(), "step:2,0.1");
}

TEST(Options, InAFileTrueStandsForAValueThatIsLeftOut) {
  TempFolder dir;
  const std::string path = dir.path() + "/run.toml";
  std::ofstream(path) << "audit = true\nresume = true\nsave = \"out\"\nlink-of = [\"1=1gbit,0\", \"2=1gbit,0\"]\n"
                         "workers = 4\nlink = \"1gbit,0\"\n";
  TrainOptions o = parse({"--config", path.c_str()});
  EXPECT_EQ(o.trainer.audit_every, 1);
  EXPECT_TRUE(o.resume);
  EXPECT_EQ(o.resume_path, "");
  EXPECT_EQ(o.link_of.size(), 2u);
  std::ofstream(path) << "audit = false\nresume = false\nledger = false\n";
  o = parse({"--config", path.c_str()});
  EXPECT_FALSE(o.trainer.audit_every);
  EXPECT_FALSE(o.resume);
  std::ofstream(path) << "audit = 10\nresume = \"out/c\"\n";
  o = parse({"--config", path.c_str(), "--workers", "2"});
  EXPECT_EQ(o.trainer.audit_every, 10);
  EXPECT_EQ(o.resume_path, "out/c");
}

TEST(Options, WithoutARateNothingIsTrained) {
  const char* words[] = {"gpt", "--optimizer", "sgd", "--lr", "0.1"};
  expect_error<UsageError>([&] { parse_options(3, words, gpt_program()); },
                           {"sgd has no rate of its own here (--lr): give one, as --lr 0.1"});
  EXPECT_FLOAT_EQ(*parse_options(5, words, gpt_program())->lr, 0.1f);
}

TEST(Options, AModelIsNoLargerThanItsSizesCanBeCounted) {
  for (const char* option : {"--layers", "--heads", "--width", "--block"}) {
    const char* words[] = {"gpt", option, "1000000000"};
    expect_error<UsageError>([&] { parse_options(3, words, gpt_program()); },
                             {"1000000000 are more than a model may have", option, "give at most 65536"});
  }
}

TEST(Options, NamesOfSeedsAndTitlesOfFiles) {
  EXPECT_EQ(with_seed("a/log.jsonl", 7), "a/log-seed7.jsonl");
  EXPECT_EQ(with_seed("run/", 7), "run-seed7");
  EXPECT_EQ(with_seed("/dev/null", 7), "/dev/null");
  const TempFolder folder;
  folder.write("lr=0.1/t.json", {});
  const std::string file = folder / "lr=0.1/t.json";
  using Titled = std::pair<std::string, std::string>;
  EXPECT_EQ(title_and_file(file), Titled("", file));
  EXPECT_EQ(title_and_file("a=" + file), Titled("a", file));
  EXPECT_EQ(title_and_file("a=b=" + file), Titled("a=b", file));
  EXPECT_EQ(title_and_file("a=nowhere=b"), Titled("a", "nowhere=b"));
}

TEST(Options, AFileOfOptionsIsCheckedLikeTheCommandLine) {
  TempFolder dir;
  const std::string path = dir.path() + "/run.toml";
  std::ofstream(path) << "epoch = 7\n";
  expect_refused({"--config", path.c_str()}, "unknown option '--epoch' (--config): did you mean --epochs? See --help");
  std::ofstream(path) << "batch = -7\n";
  expect_refused({"--config", path.c_str()},
                 "'-7' is not a whole number of at least 1 (--batch): give one, as --batch 4");
  const auto expect_refused_file = [&](const std::string& text, const std::string& sentence) {
    std::ofstream(path) << text;
    expect_refused({"--config", path.c_str()}, sentence);
  };
  expect_refused_file("batch = []\n", "'batch' has an empty list (--config): give a value, or leave the line out");
  expect_refused_file("nesterov = []\n",
                      "'nesterov' has an empty list (--config): give a value, or leave the line out");
  for (const char* twice : {"epochs = 3\nepochs = 5\n", "epochs = [3, 5]\n"})
    expect_refused_file(twice,
                        "'epochs' has 2 values, '3' and '5' (--config): give one, once, in quotes if it has commas or "
                        "blanks");
  expect_refused_file("schedule = step:2,0.1\n",
                      "'schedule' has 2 values, 'step:2' and '0.1' (--config): give one, once, in quotes if it has "
                      "commas or blanks");
  expect_refused_file("epochs = 3\nlr = 0.5\nepochs = 5\n", "'epochs' stands twice (--config): leave one of them out");
  expect_refused_file(std::string("data = \"a\0b\"\n", 13), "'data' has a byte 0 in its value (--config): take it out");
  expect_refused_file("config = \"a\"\n", "'config' belongs on the command line (--config): leave it out of the file");
  expect_refused_file("[training]\nepochs = 3\n",
                      "options have no sections, as [training] (--config): leave that line out");
  expect_refused({"--config", path.c_str(), "--config", path.c_str()},
                 "there are two files of options (--config): give one");
  std::ofstream(path) << "epochs = 3\n";
  expect_refused({"--config", path.c_str(), ("--config=" + path).c_str()},
                 "there are two files of options (--config): give one");
  expect_refused({"--config", (dir.path() + "/no").c_str()},
                 dir.path() + "/no could not be read (--config): check the path");
}

TEST(Options, AloneIsATrainingFromTheBeginning) {
  expect_refused({"--compute-only", "--init", "w.safetensors", "--eval-only"},
                 "--compute-only times a training from its beginning (--eval-only): leave one of the two out");
  expect_refused({"--compute-only", "--save", "s", "--resume"},
                 "--compute-only times a training from its beginning (--resume): leave one of the two out");
}

TEST(Options, AloneLeavesTheExchangeAside) {
  const TrainOptions o = parse({"--workers",
                                "4",
                                "--sync=redsync",
                                "--density",
                                "0.1",
                                "--qrgc",
                                "--lr",
                                "0.1",
                                "--link",
                                "1mbit,1ms",
                                "--link-of",
                                "1=1mbit,1ms",
                                "--no-mask",
                                "--momentum",
                                "0.9",
                                "--ledger",
                                "--audit",
                                "3",
                                "--reduce",
                                "sum",
                                "--codec",
                                "fp16",
                                "--save",
                                "here",
                                "--save-every",
                                "2",
                                "--trace",
                                "x",
                                "--log",
                                "log",
                                "--compute-only",
                                "--steps",
                                "20"});
  EXPECT_FALSE(o.method->traits().joins);
  EXPECT_FALSE(o.link || o.trainer.ledger_every || o.trainer.audit_every || o.trainer.save_every);
  EXPECT_EQ(o.trainer.plan.codec + o.trainer.save + o.trace, "none");
  EXPECT_EQ(o.log, "log");
  EXPECT_EQ(parse({"--workers", "4", "--momentum", "0.9", "--sync", "ps", "--lr", "0.1"}).computing, o.computing)
      << "the key that runs are compared by";
  EXPECT_NE(parse({"--workers", "4", "--momentum", "0.8", "--lr", "0.1"}).computing, o.computing);
}

}  // namespace
}  // namespace laconic
