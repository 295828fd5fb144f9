// GPTs in the trainer: blocks over workers, evaluation, other numbers of workers, and the program.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/ops/losses.h"
#include "core/state.h"
#include "data/synthetic.h"
#include "dist/trainer/language_modelling.h"
#include "layers/models/gpt.h"
#include "tests/program.h"
#include "tests/training_log.h"

namespace laconic {
namespace {

std::shared_ptr<const TextDataset> block_text() {
  static const auto data = std::make_shared<const TextDataset>(synthetic_text(700, 20));
  return data;
}

std::shared_ptr<models::GPT> small_gpt() {
  const auto model = std::make_shared<models::GPT>(models::GPT::Options{
      .vocabulary = block_text()->vocabulary.size(), .layers = 1, .heads = 2, .width = 8, .block = 5});
  model->initialize(2);
  return model;
}

const Stop goes_on = [] { return false; };

TEST(BlockLanguageModelling, WorkersTogetherReadWhatOneReads) {
  const NoGrad no_grad;
  const auto model = small_gpt();
  BlockLanguageModelling one(model, block_text(), 0, 1, {.batch = 6, .block = 5, .seed = 3});
  BlockLanguageModelling first(model, block_text(), 0, 2, {.batch = 3, .block = 5, .seed = 3});
  BlockLanguageModelling second(model, block_text(), 1, 2, {.batch = 3, .block = 5, .seed = 3});
  ASSERT_EQ(one.batches_per_epoch(), 23);  // floor(699 / 30)
  ASSERT_EQ(first.batches_per_epoch(), 23);
  std::set<float> losses;
  for (int step = 0; step < 30; ++step) {  // into the second epoch
    const Share all = one.load(), part = second.load();
    first.load();
    EXPECT_EQ(all.samples, 30);
    EXPECT_EQ(part.samples, 15);
    EXPECT_EQ(part.global_samples, 30);
    EXPECT_EQ(part.first_sample, all.first_sample + 3);
    const float loss = one.loss().item();
    EXPECT_NEAR(loss, (first.loss().item() + second.loss().item()) / 2, 1e-5f);
    losses.insert(loss);
  }
  EXPECT_EQ(losses.size(), 30u) << "blocks came again";
}

TEST(BlockLanguageModelling, StartsAnywhere) {
  const NoGrad no_grad;
  const auto model = small_gpt();
  BlockLanguageModelling task(model, block_text(), 0, 1, {.batch = 6, .block = 5}),
      again = [&] { return BlockLanguageModelling(model, block_text(), 0, 1, {.batch = 6, .block = 5}); }();
  std::vector<float> losses;
  for (int step = 0; step < 50; ++step) task.load(), losses.push_back(task.loss().item());
  for (const auto& [epoch, batch] : {std::pair{0, 7}, {1, 0}, {0, 23}, {1, 22}}) {
    again.start(epoch, batch);
    again.load();
    EXPECT_EQ(again.loss().item(), losses[static_cast<std::size_t>(epoch * 23 + batch)]) << epoch << " " << batch;
  }
}

TEST(BlockLanguageModelling, OtherWorkersReadTheRestOfAnEpoch) {
  BlockLanguageModelling task(small_gpt(), block_text(), 0, 2, {.batch = 3, .block = 5});
  // 139 blocks; 4 workers have read 4 * 12 of them, one 2 * 3.
  EXPECT_EQ(task.deal_rest({.epoch = 1, .trained = {{4, 4}, {1, 2}}}), (139 - 48 - 6) / 6);
  task.start(1, 0);
  const Share share = task.load();
  EXPECT_EQ(share.first_sample, 6 * 6);
  for (int i = 1; i < 14; ++i) task.load();
  EXPECT_EQ(task.load().first_sample, 0) << "the next epoch";
  EXPECT_EQ(task.deal_rest({.epoch = 0, .trained = {{8, 100}}}), 0);
}

TEST(BlockLanguageModelling, InOrderOtherWorkersReadWhatNobodyHasRead) {
  // A text whose tokens are their places, so that a batch tells which blocks it is.
  constexpr std::int64_t kBlock = 5, kBlocks = 139;
  const auto text = std::make_shared<TextDataset>();
  std::vector<std::int32_t> places(kBlocks * kBlock + 4);
  std::iota(places.begin(), places.end(), 0);
  for (const std::int32_t place : places) text->vocabulary.add(std::to_string(place));
  text->train = places;
  text->valid = {0, 1};
  std::map<std::int64_t, int> times;  // that a block was read
  class Reads final : public Module {
   public:
    explicit Reads(std::map<std::int64_t, int>& times) : times_(&times) {}
    Tensor forward(const Tensor& x) override {
      for (std::int64_t b = 0; b < x.dim(1); ++b) {
        EXPECT_EQ(x.data<std::int64_t>()[b] % kBlock, 0);
        ++(*times_)[x.data<std::int64_t>()[b] / kBlock];
      }
      return Tensor::zeros({x.elements(), kBlocks * kBlock + 4});
    }

   private:
    std::map<std::int64_t, int>* times_;
  };
  const auto model = std::make_shared<Reads>(times);
  std::vector<Trained> trained;
  for (const auto& [workers, batches] : {std::pair{4, 3}, {3, 2}, {1, 4}, {5, -1}}) {
    std::int64_t read = batches;
    for (int rank = 0; rank < workers; ++rank) {
      BlockLanguageModelling task(model, text, rank, workers, {.batch = 3, .block = kBlock, .shuffle = false});
      const std::int64_t left = trained.empty() ? batches : task.deal_rest({.epoch = 0, .trained = trained});
      if (batches < 0) read = left;
      task.start(0, 0);
      for (std::int64_t i = 0; i < read; ++i) task.load(), task.loss();
    }
    trained.push_back({workers, read});
  }
  // 36, 18 and 12 blocks are read, and of the 73 that are left 4 batches of five workers.
  EXPECT_EQ(trained.back().batches, 4);
  EXPECT_EQ(times.size(), 36u + 18 + 12 + 60);
  for (const auto& [block, count] : times) EXPECT_EQ(count, 1) << "block " << block;
  EXPECT_FALSE(times.contains(kBlocks)) << "the last one is not whole";
}

TEST(BlockLanguageModelling, EvaluatesEveryTokenButTheFirstOnce) {
  const NoGrad no_grad;
  const auto model = small_gpt();
  const std::vector<std::int32_t> valid = block_text()->valid.numbers();
  double expected = 0;
  for (std::size_t first = 0; first + 1 < valid.size(); first += 5) {
    const std::size_t count = std::min<std::size_t>(5, valid.size() - 1 - first);
    const std::vector<std::int64_t> x(valid.begin() + static_cast<std::ptrdiff_t>(first),
                                      valid.begin() + static_cast<std::ptrdiff_t>(first + count)),
        y(valid.begin() + static_cast<std::ptrdiff_t>(first + 1),
          valid.begin() + static_cast<std::ptrdiff_t>(first + count + 1));
    const auto n = static_cast<std::int64_t>(count);
    expected += ops::sum_of_cross_entropy((*model)(Tensor::of({n, 1}, std::span<const std::int64_t>(x))),
                                          Tensor::of({n}, std::span<const std::int64_t>(y)));
  }
  for (const int workers : {1, 2, 3}) {
    EvalSums sums;
    for (int rank = 0; rank < workers; ++rank) {
      BlockLanguageModelling task(model, block_text(), rank, workers, {.batch = 4, .block = 5});
      const EvalSums mine = task.evaluate(goes_on);
      sums.samples += mine.samples, sums.loss += mine.loss;
    }
    EXPECT_EQ(sums.samples, static_cast<double>(valid.size() - 1));
    EXPECT_NEAR(sums.loss, expected, 1e-4 * expected) << workers;
  }
}

TEST(BlockLanguageModelling, SaysWhatDoesNotFit) {
  const auto said = [](std::int64_t batch) {
    try {
      BlockLanguageModelling(small_gpt(), block_text(), 0, 2, {.batch = batch, .block = 5});
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(said(60), "");
  EXPECT_TRUE(has(said(70), "2 workers with 70 blocks of 5 tokens a step need 701")) << said(70);
}

const std::string kSmallGpt = "gpt --layers 1 --heads 2 --width 16 --block 8 --batch 4 --threads 1 --quiet ";

std::string some_text(const TempFolder& dir) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += i % 7 == 0 ? "To be, or not to be:\n" : i % 3 == 0 ? "that is the question. " : "be ";
  dir.write("text.txt", {text.begin(), text.end()});
  return dir / "text.txt";
}

TEST(Gpt, LearnsWritesAndExports) {
  const TempFolder dir;
  const std::string common = kSmallGpt + "--data " + some_text(dir) + " ";
  const Result r = run(common + "--steps 150 --lr 0.01 --schedule const --json --save " + (dir / "s") + " --export " +
                       (dir / "hf.safetensors") + " --generate 40 --temperature 0 --prompt 'To be, o'");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out.rfind("To be, o", 0), 0u) << r.out;
  EXPECT_TRUE(has(r.out, "the question. be")) << r.out;
  const Result theirs = run(common + "--eval-only --json --init " + (dir / "hf.safetensors"));
  const Result ours = run(common + "--eval-only --json --init " + (dir / "s/weights.safetensors"));
  ASSERT_EQ(theirs.exit_code, 0) << theirs.err;
  EXPECT_EQ(last_line(theirs.out)["eval"]["loss"], last_line(ours.out)["eval"]["loss"]);
  EXPECT_LT(last_line(ours.out)["eval"]["loss"].get<double>(), 1.5);
  EXPECT_EQ(load_safetensors(dir / "hf.safetensors").at("transformer.h.0.attn.c_attn.weight").shape(), (Shape{16, 48}));
}

TEST(Gpt, FollowsAFolderOfHuggingFace) {
  const std::string golden = std::string(LACONIC_SOURCE) + "/tests/golden/weights/";
  const std::string common =
      "gpt --eval-only --json --quiet --threads 1 --data " + golden + "text.txt --init " + golden;
  const auto losses = nlohmann::json::parse(file_text(golden + "losses.json"));
  for (const std::string folder : {"transformers", "sharded"})
    for (const char* const file : {"", "/model.safetensors", "/model.safetensors.index.json"}) {
      if (*file && (folder == "sharded") != has(file, "index")) continue;
      const Result r = run(common + folder + file);
      ASSERT_EQ(r.exit_code, 0) << r.err;
      EXPECT_EQ(r.err, "");
      EXPECT_NEAR(last_line(r.out)["eval"]["loss"].get<double>(), losses[folder].get<double>(), 1e-6);
    }
  const Result heads = run(common + "sharded --heads 4");
  EXPECT_EQ(heads.exit_code, 2);
  EXPECT_EQ(heads.err, "laconic: error: the config.json beside the weights says 2 (--heads 4): leave it out\n");
  const Result alone = run(common + "f16.safetensors --layers 2 --width 8 --block 5");
  EXPECT_TRUE(has(alone.err, "does not say with which `heads` it was trained; 4 is taken")) << alone.err;
}

TEST(Gpt, ItsOwnWeightsSayHowManyHeadsTheyHave) {
  const TempFolder dir;
  const std::string common = kSmallGpt + "--data " + some_text(dir) + " ";
  ASSERT_EQ(run(common + "--steps 2 --save " + (dir / "s") + " --export " + (dir / "e.safetensors")).exit_code, 0);
  const Result r = run(common + "--heads 4 --eval-only --init " + (dir / "s"));
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, "was trained with --heads 2, and this model has 4: it would compute something else")) << r.err;
  std::filesystem::remove(dir / "config.json");
  const Result exported = run(common + "--heads 4 --eval-only --init " + (dir / "e.safetensors"));
  EXPECT_TRUE(has(exported.err, "was trained with --heads 2, and this model has 4")) << exported.err;
}

TEST(Gpt, ExportsAFolderWithItsVocabulary) {
  const TempFolder dir;
  std::filesystem::create_directory(dir / "hf");
  const std::string data = "--data " + some_text(dir) + " ";
  ASSERT_EQ(run(kSmallGpt + data + "--tokens bpe:260 --steps 3 --save " + (dir / "s") + " --export " + (dir / "hf"))
                .exit_code,
            0);
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "hf"))
    files.insert(entry.path().filename().string());
  EXPECT_EQ(files,
            (std::set<std::string>{"config.json", "merges.txt", "model.safetensors", "tokenizer.json", "vocab.json"}));
  const Result ours = run(kSmallGpt + data + "--tokens bpe:260 --eval-only --json --init " + (dir / "s"));
  const Result theirs = run("gpt --batch 4 --threads 1 --quiet " + data + "--eval-only --json --init " + (dir / "hf"));
  ASSERT_EQ(theirs.exit_code, 0) << theirs.err;
  EXPECT_EQ(last_line(theirs.out)["eval"]["loss"], last_line(ours.out)["eval"]["loss"]);
  // Characters would lie beside a tokenizer that is not theirs.
  std::filesystem::remove(dir / "hf/config.json");
  const Result beside = run(kSmallGpt + data + "--steps 3 --export " + (dir / "hf"));
  EXPECT_EQ(beside.exit_code, 2);
  EXPECT_TRUE(has(beside.err, "tokenizer.json is there, and of something else (--export)")) << beside.err;
  const std::string mine = "{\"name\": \"mine\"}";
  dir.write("hf/config.json", {mine.begin(), mine.end()});
  const Result r = run(kSmallGpt + data + "--steps 3 --export " + (dir / "hf"));
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_TRUE(has(r.err, "config.json is of something else, and would be replaced (--export): name another folder"))
      << r.err;
  EXPECT_EQ(file_text(dir / "hf/config.json"), mine);
}

TEST(Gpt, APromptThatCannotBeReadIsSaidBeforeTraining) {
  const TempFolder dir;
  const Result r =
      run(kSmallGpt + "--data " + some_text(dir) + " --steps 1000000 --generate 5 --prompt X --log " + (dir / "log"));
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, "'X'")) << r.err;
  EXPECT_EQ(file_text(dir / "log"), "") << "no step was made";
}

TEST(Gpt, ShowsItsTextAsItGoesAndAnInterruptEndsIt) {
  const TempFolder dir;
  Background writing(kSmallGpt + "--data " + some_text(dir) + " --steps 1 --generate 1000000000");
  ASSERT_TRUE(eventually([&] { return writing.out().size() > 100; }));
  writing.signal(SIGINT);
  const Result r = writing.wait();
  EXPECT_EQ(r.exit_code, 128 + SIGINT) << r.err;
  EXPECT_EQ(r.out.back(), '\n');
}

TEST(Gpt, ATextThatCannotBeWrittenEndsAtOnce) {
  const TempFolder dir;
  const Result r = run(kSmallGpt + "--data " + some_text(dir) + " --steps 1 --schedule const --generate 1000000000 > /dev/full");
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.err,
            "laconic: error: the text could not be written: No space left on device. Free some space, or send it "
            "elsewhere.\n");
}

TEST(Gpt, ResumesAndTrainsOnProcessesWithTheSameBits) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const TempFolder dir;
  const std::string common =
      " --layers 1 --heads 2 --width 16 --block 8 --batch 4 --dropout 0.1 --data synthetic:3000,30 "
      "--threads 1 --quiet --save ";
  ASSERT_EQ(run("gpt --steps 50 --workers 2" + common + (dir / "a")).exit_code, 0);
  ASSERT_EQ(run("gpt --steps 47 --workers 2" + common + (dir / "b")).exit_code, 0);
  const Result r = run("laconic launch -n 2 gpt --steps 50 --resume" + common + (dir / "b"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(file_text(dir / "a/weights.safetensors") == file_text(dir / "b/weights.safetensors"));
}

TEST(Gpt, SaysWhatIsWrongWithItsOptions) {
  const auto expect_refusal = [](const std::string& options, const std::string& sentence) {
    const Result r = run("gpt --steps 1 --quiet --data synthetic:3000,30 " + options);
    EXPECT_EQ(r.exit_code, 2) << r.err;
    EXPECT_EQ(r.err, "laconic: error: " + sentence + "\n");
  };
  expect_refusal(
      "--heads 3",
      "3 heads cannot share 128 numbers (--heads and --width): give a width that is a multiple of the heads");
  expect_refusal("--tokens chars",
                 "synthetic text is made of words (--tokens chars): leave it out, or give a text with --data");
  expect_refusal("--betas 0.9", "'0.9' is one number (--betas): give two, as 0.9,0.99");
  expect_refusal("--optimizer sgd --betas 0.9,0.99",
                 "--optimizer sgd has no use for them (--betas): leave them out, or take --optimizer adam");
  expect_refusal("--export none/x", "there is no folder none (--export): make it, or name another file");
}

}  // namespace
}  // namespace laconic
