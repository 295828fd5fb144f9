// The program for photographs, as a user runs it: folders, lists, packs and archives, workers, resuming, predicting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/ops/losses.h"
#include "core/state.h"
#include "core/stream.h"
#include "data/archive_file.h"
#include "data/photo_transform.h"
#include "data/synthetic.h"
#include "layers/models/zoo.h"
#include "tests/ghosts.h"
#include "tests/image_files.h"
#include "tests/program.h"
#include "tests/tar.h"
#include "tests/training_log.h"

namespace laconic {
namespace {

using Json = nlohmann::json;

void expect_photo_sentence(const Result& r, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(r.exit_code, exit_code) << r.err;
  EXPECT_EQ(r.err.rfind("laconic: error: ", 0), 0u) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  for (const auto& part : parts) EXPECT_TRUE(has(r.err, part)) << part << " in: " << r.err;
}

/// Two classes that differ in their waves: 12 pictures to train on, 4 to validate, of various sizes and kinds.
struct Pictures {
  TempFolder dir;
  Pictures() {
    for (int i = 0; i < 16; ++i) {
      const std::string name = concat(i < 12 ? "train/" : "val/", i % 2 ? "n02 " : "n01 ");
      const int width = 40 + 3 * i, height = 50 - 2 * i;
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3));
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
          for (int c = 0; c < 3; ++c)
            pixels[static_cast<std::size_t>((y * width + x) * 3 + c)] =
                static_cast<std::uint8_t>((i % 2 ? x : y) / 4 % 2 * 150 + 10 * c + i);
      const std::string folder = name.substr(0, name.size() - 1);
      dir.write(concat(folder, "/", i, ".JPEG"),
                i % 5 ? encode_jpeg(pixels.data(), width, height, 90) : ppm_of(pixels, width, height));
    }
    const std::string labels = "n01 stripes, lying\nn02 stripes, standing\n";
    dir.write("synsets.txt", {labels.begin(), labels.end()});
  }
};

const std::string kSmallPhotos = "imagenet --model resnet20 --image-size 16 --threads 1 --seed 1 ";

TEST(Imagenet, TrainsResumesAndPredicts) {
  const Pictures p;
  const std::string common = kSmallPhotos + "--data " + p.dir.path() +
                             " --workers 2 --batch 3 --lr 0.05 --schedule const " + "--data-threads 2 --quiet --save ";
  const Result whole = run(common + (p.dir / "a") + " --epochs 6 --json --log " + (p.dir / "log"));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const Json summary = last_line(whole.out);
  EXPECT_EQ(summary["classes"], 2);
  EXPECT_EQ(summary["steps"], 12);
  EXPECT_GE(summary["data_share"].get<double>(), 0.0);
  EXPECT_TRUE(has(file_text(p.dir / "log"), "\"data_ms\":"));

  ASSERT_EQ(run(common + (p.dir / "b") + " --epochs 3").exit_code, 0);
  const Result resumed = run(common + (p.dir / "b") + " --epochs 6 --resume");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(file_text(p.dir / "a/weights.safetensors") == file_text(p.dir / "b/weights.safetensors"));
  EXPECT_EQ(file_text(p.dir / "a/labels.txt"), file_text(p.dir / "synsets.txt"));

  const std::string dog = (p.dir / "val/n02/13.JPEG") + " " + (p.dir / "val/n01/12.JPEG");
  for (const std::string& from : {"--init " + (p.dir / "a/weights.safetensors"), "--resume --save " + (p.dir / "b")}) {
    const Result said = run(kSmallPhotos + from + " --data nowhere --predict " + dog);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_TRUE(has(said.out, "13.JPEG\n ")) << said.out;
    EXPECT_TRUE(has(said.out, " %  n02 stripes, standing\n")) << said.out;
  }
  const Result json =
      run(kSmallPhotos + "--json --init " + (p.dir / "a/weights.safetensors") + " --data nowhere --predict " + dog);
  const Json predictions = last_line(json.out)["predictions"];
  ASSERT_EQ(predictions.size(), 2u);
  EXPECT_NEAR(predictions[0]["likely"][0]["probability"].get<double>() +
                  predictions[0]["likely"][1]["probability"].get<double>(),
              1, 1e-9);
  if (cuda_devices() > 0) {
    const Result there = run(kSmallPhotos + "--json --device cuda --init " + (p.dir / "a/weights.safetensors") +
                             " --data nowhere --predict " + dog);
    ASSERT_EQ(there.exit_code, 0) << there.err;
    const Json same = last_line(there.out)["predictions"];
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const Json &a = same[i]["likely"][0], &b = predictions[i]["likely"][0];
      EXPECT_EQ(a["class"], b["class"]);
      EXPECT_NEAR(a["probability"].get<double>(), b["probability"].get<double>(), 1e-4);
    }
  }
  expect_photo_sentence(
      run(kSmallPhotos + "--init " + (p.dir / "a/weights.safetensors") + " --predict " + (p.dir / "synsets.txt")), 1,
      {"synsets.txt is no JPEG, PNG or PPM"});
  expect_photo_sentence(run(kSmallPhotos + "--init " + (p.dir / "a/weights.safetensors") + " --labels " +
                            (p.dir / "log") + " --predict x.jpg"),
                        1, {"log names ", " classes, but the weights have 2"});
}

/// What the pixels of a test image become as a file: grey ones as PPM in three equal colours.
File picture_of(const ImageDataset& data, std::int64_t i) {
  const std::size_t n = static_cast<std::size_t>(data.height * data.width),
                    channels = static_cast<std::size_t>(data.channels);
  const std::uint8_t* const planes = data.test.pixels.data() + i * data.image_bytes();
  std::vector<std::uint8_t> pixels;
  for (std::size_t at = 0; at < n; ++at)
    for (std::size_t c = 0; c < 3; ++c) pixels.push_back(planes[c % channels * n + at]);
  return ppm_of(pixels, data.width, data.height);
}

TEST(SmallImages, PredictNamesWhatEvaluationCounts) {
  for (const auto& [program, data] :
       {std::pair{"mnist", synthetic_mnist({300, 12})}, std::pair{"cifar10", synthetic_cifar10({60, 6})}}) {
    const TempFolder dir;
    const std::string options =
        concat(program, " --threads 1 --data synthetic:", data.train.size(), ",", data.test.size(), " ");
    // Workers whose parameters differ: the server's are evaluated.
    const Result trained =
        run(options + "--workers 2 --sync slimdp --batch 10 --epochs 2 --json --quiet --save " + (dir / "run"));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    std::string pictures;
    for (std::int64_t i = 0; i < data.test.size(); ++i) {
      dir.write(concat(i, ".ppm"), picture_of(data, i));
      pictures += " " + (dir / concat(i, ".ppm"));
    }
    std::set<std::string> answers;
    for (const std::string& from : {"--init " + (dir / "run/weights.safetensors"), "--resume --save " + (dir / "run"),
                                    "--resume $(ls -d " + (dir / "run") + "/checkpoint-*/ | tail -n 1)"}) {
      const Result said = run(concat(program, " --threads 1 --data nowhere --json ", from, " --predict", pictures));
      ASSERT_EQ(said.exit_code, 0) << said.err;
      const Json predictions = last_line(said.out)["predictions"];
      ASSERT_EQ(predictions.size(), static_cast<std::size_t>(data.test.size()));
      int wrong = 0;
      for (std::size_t i = 0; i < predictions.size(); ++i) {
        wrong += predictions[i]["likely"][0]["class"] != data.test.labels[i];
      }
      EXPECT_NEAR(100.0 * wrong / static_cast<double>(predictions.size()),
                  last_line(trained.out)["eval"]["top1_error"].get<double>(), 1e-3);
      answers.insert(predictions.dump());
    }
    EXPECT_EQ(answers.size(), 1u);
    std::filesystem::remove(dir / "run/weights.safetensors");
    const Result said =
        run(concat(program, " --threads 1 --data nowhere --resume --save ", dir / "run", " --predict", pictures));
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_NE(said.err.find("predicts by what worker 0 of 2 held"), std::string::npos) << said.err;
  }
}

StateDict weights_of_lenet() {
  const auto model = make_model("lenet", {});
  model->initialize(1);
  return model->state_dict();
}

TEST(SmallImages, LabelsAreSavedAndPicturesOfAnySizeAreTaken) {
  const TempFolder dir;
  const std::string file = dir / "w.safetensors";
  StateDict weights = weights_of_lenet();
  weights.set_text("mean", "0.5"), weights.set_text("std", "0.25");
  save_safetensors(weights, file);
  dir.write("labels.txt", [] {
    const std::string ten = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
    return File(ten.begin(), ten.end());
  }());
  dir.write("tall.jpg", jpeg_of(90, 200));
  const Result said = run("mnist --threads 1 --data nowhere --init " + file + " --predict " + (dir / "tall.jpg"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(has(said.out, " %  a\n") || has(said.out, " %  b\n") || has(said.out, " %  c\n") ||
              has(said.out, " %  d\n") || has(said.out, " %  e\n") || has(said.out, " %  f\n"))
      << said.out;
  for (const char* damaged : {"0.5,0.5", "x", "", "inf"}) {
    weights.set_text("mean", damaged);
    save_safetensors(weights, file);
    expect_photo_sentence(run("mnist --threads 1 --init " + file + " --predict " + (dir / "tall.jpg")), 1,
                          {"of the pixels (mean) is not 1 number"});
  }
  weights.set_text("mean", "0.5"), weights.set_text("std", "0");
  save_safetensors(weights, file);
  expect_photo_sentence(run("mnist --threads 1 --init " + file + " --predict " + (dir / "tall.jpg")), 1,
                        {"of the pixels (std) is not 1 number of that kind"});
  // Weights of somebody else say nothing of pixels: the data set does.
  save_safetensors(weights_of_lenet(), file);
  const Result by_data =
      run("mnist --threads 1 --data synthetic:10,10 --init " + file + " --predict " + (dir / "tall.jpg"));
  EXPECT_EQ(by_data.exit_code, 0) << by_data.err;
  EXPECT_EQ(by_data.out, said.out);
  expect_photo_sentence(
      run("cifar10 --threads 1 --data mnist:synthetic:10,10 --init " + (dir / "none") + " --predict x"), 1, {"none"});
  const auto colour = make_model("resnet20", {.classes = 10});
  colour->initialize(1);
  save_safetensors(colour->state_dict(), file);
  expect_photo_sentence(
      run("cifar10 --threads 1 --data mnist:synthetic:10,10 --init " + file + " --predict " + (dir / "tall.jpg")), 2,
      {"takes images of [3, 32, 32]", "has [1, 28, 28]"});
  expect_photo_sentence(run("mnist --labels x --data synthetic:10,10"), 2, {"(--labels): add --predict"});
}

TEST(SmallImages, LabelsThatLieThereAreTheTrainingsFromItsBeginning) {
  const TempFolder dir;
  dir.write("s/labels.txt", File{'o', 'l', 'd'});
  Background training("mnist --data synthetic:60,20 --epochs 1000000 --quiet --overwrite --save " + (dir / "s") +
                      " --log " + (dir / "log"));
  ASSERT_TRUE(eventually([&] { return !file_text(dir / "log").empty(); }));
  EXPECT_NE(file_text(dir / "s/labels.txt"), "old");
  training.signal(SIGKILL);
  training.wait();
  // A file of another count, which nobody named, is passed over.
  const std::string file = dir / "w.safetensors";
  save_safetensors(weights_of_lenet(), file);
  dir.write("labels.txt", File{'o', 'n', 'e'});
  dir.write("x.jpg", jpeg_of(28, 28));
  const std::string predict =
      "mnist --threads 1 --data synthetic:10,10 --init " + file + " --predict " + (dir / "x.jpg");
  Result said = run(predict);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(has(said.err, "labels.txt names 1 classes, and the weights have 10")) << said.err;
  said = run(predict + " --labels " + (dir / "labels.txt"));
  EXPECT_EQ(said.exit_code, 1);
}

TEST(SmallImages, ANewHeadTakesOtherClasses) {
  const TempFolder dir;
  const std::string options = "cifar10 --threads 1 --batch 20 --quiet --schedule const ";
  ASSERT_EQ(run(options + "--data synthetic:40,10 --steps 1 --save " + (dir / "ten")).exit_code, 0);
  const std::string init = "--data cifar-100:synthetic:40,10 --init " + (dir / "ten/weights.safetensors ");
  expect_photo_sentence(run(options + init), 1, {"fc.", "[10", "[100", "--new-head lets the output layer begin anew"});
  ASSERT_EQ(run(options + init + "--new-head --steps 1 --lr 0 --save " + (dir / "hundred")).exit_code, 0);
  const StateDict ten = load_safetensors(dir / "ten/weights.safetensors"),
                  hundred = load_safetensors(dir / "hundred/weights.safetensors");
  EXPECT_EQ(hundred.at("fc.weight").shape()[0], 100);
  EXPECT_EQ(hundred.at("conv1.weight").to_vector(), ten.at("conv1.weight").to_vector());
  EXPECT_EQ(hundred.text("model"), "resnet20");
  expect_photo_sentence(run("cifar10 --model resnet32 --data synthetic:40,10 " + init.substr(init.find("--init"))), 1,
                        {"It was saved from resnet20."});
  // The model is the file's own, unless another one is named.
  dir.write("a.ppm", ppm_of(waves(32, 32), 32, 32));
  expect_photo_sentence(
      run("cifar10 --model resnet32 --data synthetic:40,10 --new-head " + init.substr(init.find("--init"))), 1,
      {"is not in the file", "It was saved from resnet20."});
  ASSERT_EQ(run("cifar10 --model alexnet-32 --data synthetic:8,4 --batch 4 --steps 1 --eval-every 0 --threads 1 "
                "--quiet --save " +
                (dir / "other"))
                .exit_code,
            0);
  EXPECT_EQ(run("cifar10 --threads 1 --data nowhere --init " + (dir / "other/weights.safetensors") + " --predict " +
                (dir / "a.ppm"))
                .exit_code,
            0);
  expect_photo_sentence(run("cifar10 --new-head"), 2, {"(--new-head): add --init FILE"});
  expect_photo_sentence(run(options + init + "--new-head --eval-only"), 2, {"(--new-head)"});
}

/// What the program should say of a picture: the loss of label 0 by weights that see its pixels from -1 to 1.
double loss_at_half(const std::string& model_name, const std::string& weights, const std::string& picture, int size) {
  const auto model = make_model(model_name, {.classes = 2});
  model->initialize(3);
  StateDict state;
  for (const auto& p : model->named_parameters()) state.set(p.name, p.parameter->value());
  for (const auto& b : model->named_buffers()) state.set(b.name, b.tensor);
  save_safetensors(state, weights);
  model->eval();
  File file;
  read_image_file(picture, file);
  const Tensor x = Tensor::empty({1, 3, size, size});
  PhotoTransform({.size = size, .mean = {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}})(file, picture, 0, 0,
                                                                                      x.data<float>());
  const NoGrad no_grad;
  return ops::sum_of_cross_entropy((*model)(x), Tensor::of({1}, std::vector<std::int64_t>{0}));
}

TEST(Imagenet, PixelsAreScaledAsTheModelsPublishedWeightsWantThem) {
  const Pictures p;
  const std::string weights = p.dir / "w.safetensors", picture = p.dir / "val/n01/12.JPEG";
  const double loss = loss_at_half("googlenet-torchvision", weights, picture, 48);
  const std::string with = "imagenet --model googlenet-torchvision --image-size 48 --threads 1 --json --init " + weights;
  const Result said = run(with + " --predict " + picture);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const Json predicted = last_line(said.out)["predictions"][0]["likely"];
  const auto first = std::find_if(predicted.begin(), predicted.end(), [](const Json& l) { return l["class"] == 0; });
  ASSERT_NE(first, predicted.end());
  EXPECT_NEAR(-std::log((*first)["probability"].get<double>()), loss, 1e-4);
  // Evaluation, of this picture alone: lists name it.
  p.dir.write("one.txt", File{'v', 'a', 'l', '/', 'n', '0', '1', '/', '1', '2', '.', 'J', 'P', 'E', 'G', ' ', '0', '\n'});
  const Result evaluated = run(with + " --quiet --eval-only --labels " + (p.dir / "synsets.txt") + " --data " +
                               (p.dir / "one.txt") + "," + (p.dir / "one.txt"));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_NEAR(last_line(evaluated.out)["eval"]["loss"].get<double>(), loss, 1e-4);
}

TEST(Imagenet, FolderListPackAndArchiveAreOneDataSet) {
  const Pictures p;
  std::string lists[2];
  for (int i = 0; i < 16; ++i)
    lists[i >= 12] += concat(i < 12 ? "train" : "val", "/n0", i % 2 + 1, "/", i, ".JPEG ", i % 2, "\n");
  std::istringstream in(lists[0]);
  std::vector<std::string> sorted;
  for (std::string line; std::getline(in, line);) sorted.push_back(line + "\n");
  std::sort(sorted.begin(), sorted.end());  // as the folder is
  lists[0].clear();
  for (const auto& line : sorted) lists[0] += line;
  p.dir.write("a.txt", {lists[0].begin(), lists[0].end()});
  p.dir.write("b.txt", {lists[1].begin(), lists[1].end()});
  const Result packed = run("laconic pack " + p.dir.path() + " " + (p.dir / "all.pack"));
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_TRUE(has(packed.out, "all.pack: 12 training and 4 validation images of 2 classes, ")) << packed.out;
  std::vector<std::string> weights, all{p.dir.path(), (p.dir / "a.txt") + "," + (p.dir / "b.txt"), p.dir / "all.pack"};
  if (has_libarchive()) {
    Tar tar;
    for (const auto& file : std::filesystem::recursive_directory_iterator(p.dir.path())) {
      const std::string text = file.is_regular_file() ? file_text(file.path()) : "";
      if (file.path().extension() != ".pack" && file.is_regular_file())
        tar.add(std::filesystem::relative(file.path(), p.dir.path()).string(), text);
    }
    p.dir.write("all.tar", tar.bytes());
    all.push_back(p.dir / "all.tar");
  }
  for (const std::string& data : all) {
    const Result r = run(kSmallPhotos + "--data " + data + " --batch 4 --epochs 1 --quiet --overwrite --save " + (p.dir / "out"));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    weights.push_back(file_text(p.dir / "out/weights.safetensors"));
  }
  for (const std::string& others : weights) EXPECT_TRUE(weights[0] == others);
}

TEST(Imagenet, EvaluationIsExactForAnyNumberOfWorkers) {
  const Pictures p;
  ASSERT_EQ(run(kSmallPhotos + "--data " + p.dir.path() + " --epochs 1 --batch 4 --quiet --save " + (p.dir / "out"))
                .exit_code,
            0);
  std::vector<double> losses;
  for (const int workers : {1, 3}) {
    const Result r = run(kSmallPhotos + "--data " + p.dir.path() + " --batch 3 --eval-only --quiet --json --init " +
                         (p.dir / "out/weights.safetensors") + concat(" --workers ", workers));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    losses.push_back(last_line(r.out)["eval"]["loss"]);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5);
}

TEST(Imagenet, FourWorkersLearnPicturesByHeartStoppedOrNot) {
  const Pictures p;
  const std::string options = "--model resnet20 --image-size 16 --threads 1 --seed 1 --no-augment --data " + p.dir.path() +
                              " --batch 3 --lr 0.1 --schedule const --quiet ";
  std::map<std::int64_t, std::string> by_threads;
  for (const std::string start : {"imagenet --workers 4 ", "laconic launch -n 4 imagenet "}) {
    SCOPED_TRACE(start);
    if (has(start, "launch") && std::system("command -v mpirun >/dev/null") != 0) continue;
    const std::string log = p.dir / "log", save = " --save " + (p.dir / "stopped") + " --log " + log;
    std::filesystem::remove_all(p.dir / "stopped");
    std::filesystem::remove(log);
    Background training(start + options + "--epochs 100000" + save);
    ASSERT_TRUE(eventually([&] { return !file_text(log).empty(); }));
    training.signal(SIGINT);
    const Result stopped = training.wait();
    ASSERT_EQ(stopped.exit_code, 128 + SIGINT) << stopped.err;
    const std::int64_t done = losses_in(log).rbegin()->first;
    const std::int64_t last = std::max<std::int64_t>(done + 20, 60);  // enough to learn them, however soon it stopped
    const std::string until = concat("--steps ", last);
    const Result resumed = run(start + options + until + " --resume" + save);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    const std::string whole_log = p.dir / "whole.jsonl";
    const Result whole = run(start + options + until + " --overwrite --save " + (p.dir / "whole") + " --log " + whole_log);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const auto losses = losses_in(log);
    EXPECT_EQ(losses.size(), static_cast<std::size_t>(last));
    EXPECT_EQ(losses, losses_in(whole_log));
    EXPECT_TRUE(file_text(p.dir / "stopped/weights.safetensors") == file_text(p.dir / "whole/weights.safetensors"));
    EXPECT_LT(std::stod(losses.rbegin()->second), 0.1);
    // Processes compute what threads do, as far as both went.
    if (by_threads.empty()) by_threads = losses;
    for (const auto& [step, loss] : losses)
      if (by_threads.count(step) > 0) { EXPECT_EQ(loss, by_threads.at(step)) << step; }
  }
}

TEST(Imagenet, LearnsWhatIsGenerated) {
  const Result r =
      run(kSmallPhotos + "--data synthetic:300,100 --batch 30 --epochs 3 --lr 0.1 --schedule cosine --json --quiet");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const Json eval = last_line(r.out)["eval"];
  EXPECT_LT(eval["top1_error"].get<double>(), 70);  // guessing: 90
  EXPECT_LT(eval["top5_error"].get<double>(), eval["top1_error"].get<double>());
}

TEST(Imagenet, PassesOverBadFilesUpToAMost) {
  const Pictures p;
  p.dir.write("train/n01/bad.JPEG", {});
  const std::string command = kSmallPhotos + "--data " + p.dir.path() + " --batch 4 --epochs 1 --schedule const --quiet ";
  expect_photo_sentence(run(command), 1, {"train/n01/bad.JPEG is empty", "--max-bad 10"});
  const Result passed = run(command + "--max-bad 1 --color-jitter 0.4,0.4,0.4");
  EXPECT_EQ(passed.exit_code, 0);
  EXPECT_EQ(passed.err.rfind("laconic: warning: ", 0), 0u) << passed.err;
  expect_photo_sentence(run("laconic pack " + p.dir.path() + " " + (p.dir / "x.pack")), 1, {"bad.JPEG is empty"});
  EXPECT_FALSE(std::filesystem::exists(p.dir / "x.pack"));
}

TEST(Imagenet, AnEvaluationLeavesBadFilesOut) {
  const Pictures p;
  const std::string common = kSmallPhotos + "--data " + p.dir.path() + " --batch 3 --quiet --json --max-bad 9 ";
  ASSERT_EQ(run(common + "--steps 0 --save " + (p.dir / "out")).exit_code, 0);
  const std::string evaluate = common + "--eval-only --init " + (p.dir / "out/weights.safetensors");
  const auto loss = [&](int workers) {
    const Result r = run(evaluate + concat(" --workers ", workers));
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return last_line(r.out)["eval"]["loss"].get<double>();
  };
  p.dir.remove("val/n02/13.JPEG");
  const double without = loss(1);
  p.dir.write("val/n02/13.JPEG", {});
  p.dir.write("val/n01/99.JPEG", {});  // the last of its class: 15 would have stood in, and 12
  EXPECT_NEAR(loss(1), without, 1e-6);
  EXPECT_NEAR(loss(3), without, 1e-6);
  for (const char* name : {"n01/12", "n01/14", "n02/15"}) p.dir.write(concat("val/", name, ".JPEG"), {});
  const Result r = run(evaluate);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, "laconic: error: ") && has(r.err, "nothing to evaluate by could be read (--data)")) << r.err;
}

TEST(Imagenet, SaysWhatMemoryAStepTook) {
  if (memory_stats().allocations == 0) Tensor::empty({1});
  if (memory_stats().allocations == 0) GTEST_SKIP() << "this build's sanitizer hides the allocator";
  const auto bytes = [](const std::string& options) {
    const Result r = run("imagenet --model resnet20 --image-size 64 --threads 1 --data synthetic:32,8 --batch 8 --epochs 1 "
                         "--quiet --json " + options);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    const Json end = last_line(r.out);
    EXPECT_GT(end["memory_bytes_peak"], end["activation_bytes_peak"]);
    return end["activation_bytes_peak"].get<double>();
  };
  const auto model = make_model("resnet20");
  ParameterArena arena(model->parameters());
  const auto told = static_cast<double>(peak_of_step(*model, {3, 64, 64}, 8));
  const double took = bytes("");
  EXPECT_GT(took, 0.9 * told);
  EXPECT_LT(took, 1.5 * told);  // kernels' own work space, and blocks of the allocator
  EXPECT_LT(bytes("--checkpoint-activations"), 0.7 * took);
  EXPECT_LT(bytes("--workers 2"), 1.1 * took);  // of each
}

TEST(Imagenet, ScalesTheLearningRateToTheGlobalBatch) {
  const TempFolder dir;
  const auto rate = [&](const std::string& options) {
    EXPECT_EQ(run(kSmallPhotos + "--data synthetic:40,10 --steps 1 --schedule const --quiet --log " + (dir / "log") +
                  " " + options)
                  .exit_code,
              0);
    return log_of(dir / "log")[1]["lr"].get<double>();
  };
  EXPECT_NEAR(rate("--batch 16 --workers 2 --accumulate 2"), 0.1 * 64 / 256, 1e-7);
  EXPECT_NEAR(rate("--batch 16 --lr-per-256 0.4"), 0.4 * 16 / 256, 1e-7);
  EXPECT_NEAR(rate("--batch 16 --lr 0.3"), 0.3, 1e-7);
  EXPECT_NEAR(rate("--batch 16 --optimizer adam"), 0.001, 1e-9);
  expect_photo_sentence(run(kSmallPhotos + "--lr 1 --lr-per-256 1"), 2, {"--lr and --lr-per-256"});
  // Another number of workers takes another rate, by the rule that the checkpoint names.
  const std::string resumed = "--batch 4 --save " + (dir / "run") + " --workers ";
  EXPECT_NEAR(rate(resumed + "2"), 0.1 * 8 / 256, 1e-7);
  const std::string on = kSmallPhotos + "--data synthetic:40,10 --schedule const --quiet --resume --steps 2 ";
  EXPECT_EQ(run(on + "--log " + (dir / "more") + " " + resumed + "1").exit_code, 0);
  EXPECT_NEAR(log_of(dir / "more")[1]["lr"].get<double>(), 0.1 * 4 / 256, 1e-7);
  expect_photo_sentence(run(on + "--lr-per-256 0.2 " + resumed + "2"), 1, {"lr=0.1 per 256 samples"});
}

TEST(Imagenet, WrongOptionsAreSaidInOneSentence) {
  const TempFolder dir;
  expect_photo_sentence(run("imagenet --data " + (dir / "none")), 1, {"none is no file or folder (--data)"});
  expect_photo_sentence(run("imagenet --predict x.jpg"), 2, {"there are no weights to predict by (--predict)"});
  expect_photo_sentence(run("imagenet --color-jitter 0.1,0.2,0.3,0.4"), 2,
                        {"has more than three numbers (--color-jitter)"});
  expect_photo_sentence(run("imagenet --color-jitter 2"), 2, {"2 is out of range (--color-jitter)"});
  expect_photo_sentence(run("imagenet --image-size 9999 --data synthetic:20,10"), 2, {"--image-size"});
  expect_photo_sentence(run("imagenet --model resnet51"), 2, {"unknown model 'resnet51'"});
  expect_photo_sentence(run("laconic pack " + (dir / "none") + " " + (dir / "out")), 1, {"none is no file or folder"});
  dir.write("train/a/1.ppm", ppm_of(waves(9, 9), 9, 9));
  expect_photo_sentence(run(kSmallPhotos + "--data " + dir.path()), 2, {"has no validation images (--data)"});
}

}  // namespace
}  // namespace laconic
