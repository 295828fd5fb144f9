// The language-model program, as a user runs it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/training/options.h"
#include "core/state.h"
#include "layers/models/language_model.h"
#include "tests/program.h"
#include "tests/training_log.h"

namespace laconic {
namespace {

using Json = nlohmann::json;

const std::string kSmallText = "ptb --data synthetic:2000,30 --batch 4 --bptt 10 --threads 1 ";

TEST(Ptb, TrainsMeasuresAndLogsPerplexity) {
  const TempFolder dir;
  const Result r = run(kSmallText + "--workers 2 --epochs 2 --json --log " + (dir / "log") + " --save " + (dir / "s"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  for (const char* part : {"lstm-small: ", " (2000 training, 200 validation, 200 test tokens)",
                           "2 workers (threads), 4 streams of 10 tokens each a step (8 in all)",
                           "epoch  1  validation perplexity ", "test perplexity ", "tokens/s"})
    EXPECT_TRUE(has(r.out, part)) << part << " in " << r.out;
  auto log = log_of(dir / "log");
  if (log.back().contains("memory")) log.pop_back();  // not where a sanitizer allocates
  ASSERT_TRUE(log.back().contains("ranks"));
  log.pop_back();
  ASSERT_EQ(log.size(), 1 + 2u * 25 + 2 + 1);
  EXPECT_TRUE(log[0].contains("run"));
  EXPECT_TRUE(log[1].contains("samples_per_s"));
  const Json& eval = log[26]["eval"];
  EXPECT_NEAR(eval["perplexity"].get<double>(), std::exp(eval["loss"].get<double>()), 1e-3);
  EXPECT_FALSE(eval.contains("top1_error"));
  EXPECT_TRUE(log.back().contains("test"));
  const Json result = last_line(r.out);
  EXPECT_EQ(result["test"]["perplexity"], log.back()["test"]["perplexity"]);
  EXPECT_LT(result["eval"]["perplexity"].get<double>(), eval["perplexity"].get<double>());

  const Result measured = run(kSmallText + "--eval-only --json --init " + (dir / "s/weights.safetensors"));
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_NEAR(last_line(measured.out)["test"]["loss"].get<double>(), result["test"]["loss"].get<double>(), 1e-5);
  EXPECT_NEAR(last_line(measured.out)["eval"]["loss"].get<double>(), result["eval"]["loss"].get<double>(), 1e-5);
}

TEST(Ptb, ResumesInTheMiddleOfAnEpoch) {
  const TempFolder dir;
  const std::string common = kSmallText + "--workers 2 --quiet --log " + (dir / "log") + " --save ";
  ASSERT_EQ(run(common + (dir / "a") + " --steps 30").exit_code, 0);
  ASSERT_EQ(run(common + (dir / "b") + " --steps 17").exit_code, 0);
  const Result r = run(common + (dir / "b") + " --steps 30 --resume");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(file_text(dir / "a/weights.safetensors") == file_text(dir / "b/weights.safetensors"));
}

TEST(Ptb, ThreadsAndProcessesGiveTheSameBits) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const TempFolder dir;
  const std::string common = " --data synthetic:2000,30 --batch 2 --bptt 10 --steps 20 --threads 1 --audit 5 --quiet ";
  ASSERT_EQ(run("ptb --workers 3 --save " + (dir / "a") + common).exit_code, 0);
  const Result r = run("laconic launch -n 3 ptb --generate 5 --save " + (dir / "b") + common);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(file_text(dir / "a/weights.safetensors") == file_text(dir / "b/weights.safetensors"));
}

TEST(Ptb, WritesTextThatFollowsFromTheSeed) {
  const TempFolder dir;
  ASSERT_EQ(run(kSmallText + "--epochs 1 --quiet --save " + dir.path()).exit_code, 0);
  const std::string from = "--quiet --init " + (dir / "weights.safetensors") + " --steps 0 ";
  const Result r = run(kSmallText + from + "--generate 30 --temperature 0.8 --prompt 'baba zzz'");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out.rfind("baba zzz ", 0), 0u) << r.out;
  EXPECT_FALSE(has(r.out, "<unk>"));
  EXPECT_EQ(run(kSmallText + from + "--generate 30 --temperature 0.8 --prompt 'baba zzz'").out, r.out);
  EXPECT_NE(run(kSmallText + from + "--generate 30 --temperature 0.8 --prompt 'baba zzz' --seed 1").out, r.out);
  const Result after = run(kSmallText + "--steps 3 --quiet --workers 2 --generate 4");
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_FALSE(after.out.empty());
}

TEST(Ptb, TiedAndUntiedModelsHaveTheirOwnWeights) {
  const TempFolder dir;
  for (const char* how : {"--tied", "--untied"}) {
    ASSERT_EQ(run(kSmallText + "--steps 0 --quiet --overwrite --save " + dir.path() + " " + how).exit_code, 0);
    const StateDict weights = load_safetensors(dir / "weights.safetensors");
    EXPECT_EQ(weights.contains("decoder.weight"), std::string(how) == "--untied");
    EXPECT_EQ(weights.at("encoder.weight").shape(), (Shape{32, 200}));
  }
}

void expect_refusal(const std::string& options, int exit_code, const std::string& sentence) {
  const Result r = run("ptb --steps 1 --quiet " + options);
  EXPECT_EQ(r.exit_code, exit_code) << r.err;
  EXPECT_EQ(r.err, "laconic: error: " + sentence + "\n");
}

TEST(Ptb, WeightsOfOtherWordsAreRefused) {
  const TempFolder dir;
  for (const auto& [file, words] : {std::pair{"one.txt", "a b c "}, {"other.txt", "c a b "}}) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += std::string(words) + words + "\n";
    dir.write(file, {text.begin(), text.end()});
  }
  const std::string common = "ptb --batch 2 --bptt 5 --threads 1 --quiet --data " + dir.path() + "/";
  ASSERT_EQ(run(common + "one.txt --steps 1 --save " + (dir / "s")).exit_code, 0);
  const std::string weights = " --steps 1 --init " + (dir / "s/weights.safetensors");
  EXPECT_EQ(run(common + "one.txt" + weights).exit_code, 0);
  EXPECT_EQ(run(common + "./one.txt --steps 2 --resume --save " + (dir / "s")).exit_code, 0) << "data may move";
  const Result r = run(common + "other.txt" + weights);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, "was trained with other words or tokens")) << r.err;
}

TEST(Ptb, SaysWhatIsWrongWithAText) {
  const TempFolder dir;
  const auto write = [&](const std::string& name, const std::string& text) {
    dir.write(name, {text.begin(), text.end()});
  };
  expect_refusal(
      "--data " + (dir / "none"), 1,
      (dir / "none") + " does not exist. Give a folder with train, valid and test text, or a text file (--data).");
  write("train.txt", "");
  write("valid.txt", "a b\n");
  write("test.txt", "a b\n");
  expect_refusal("--data " + dir.path(), 1, (dir / "train.txt") + " is empty: it has no words. Give a file with text.");
  write("train.txt", "a b\n\nc \xC3(\n");
  expect_refusal("--data " + dir.path() + " --workers 3", 1,
                 (dir / "train.txt") + ", line 3: not UTF-8. Convert the file, as with iconv -t UTF-8.");
  write("train.txt", "a b c\n");
  expect_refusal("--data " + dir.path() + " --batch 2 --bptt 3 --workers 2", 1,
                 dir.path() +
                     " has 4 words to train on, and 2 workers with 2 streams of 3 words a step need 16. Give a "
                     "longer text, or less --batch or --bptt.");
  std::string line;
  for (int i = 0; i < 200000; ++i) line += "word ";
  write("train.txt", line);
  EXPECT_EQ(run("ptb --steps 1 --quiet --batch 2 --bptt 3 --data " + dir.path()).exit_code, 0);
  expect_refusal("--data synthetic:5", 2,
                 "--data: synthetic:5 is not synthetic:TRAIN,WORDS with two numbers. Example: synthetic:100000,200.");
}

TEST(Ptb, SaysWhatIsWrongWithItsOptions) {
  expect_refusal("--tied --untied", 2, "the two contradict each other (--tied and --untied): leave one of them out");
  expect_refusal("--temperature 0.5", 2, "nothing is to be written (--temperature): add --generate 200");
  expect_refusal("--dropout 1", 2, "1 is out of range (--dropout): give a number from 0 to 0.99, as --dropout 0.5");
  expect_refusal(
      "--checkpoint-activations", 2,
      "a language model has no segments to compute again: its step is one LSTM's and the logits, which are kept "
      "(--checkpoint-activations): less --bptt or --batch takes less memory");
  expect_refusal("--data synthetic:1000,20 --batch 2147483647", 1,
                 "synthetic has 1,000 words to train on, and 1 worker with 2147483647 streams of 20 words a step need "
                 "45,097,156,587. Give a longer text, or less --batch or --bptt.");
  expect_refusal("--bptt 0", 2, "'0' is not a whole number of at least 1 (--bptt): give one, as --bptt 4");
  expect_refusal("--no-augment", 2,
                 "unknown option '--no-augment' (command line): did you mean --no-dropout? See --help");
}

TEST(Ptb, TakesTheHyperParametersOfTheModelsPaper) {
  const auto parse = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "ptb");
    return parse_options(static_cast<int>(arguments.size()), arguments.data(), language_program()).value();
  };
  const TrainOptions small = parse({});
  EXPECT_EQ(small.batch, 20);
  EXPECT_EQ(small.bptt, 20);
  EXPECT_EQ(small.trainer.epochs, 13);
  EXPECT_EQ(*small.lr, 20);
  EXPECT_EQ(small.trainer.clip.limit, 0.25);
  const Schedule schedule = small.trainer.schedule;
  const auto rate = [&](std::int64_t epoch) { return schedule.factor((epoch - 1) * 10, {10, 130}); };
  EXPECT_EQ(rate(4), 1);
  EXPECT_EQ(rate(5), 0.5);
  EXPECT_EQ(rate(13), std::pow(0.5, 9));
  const TrainOptions large = parse({"--model", "lstm-1500", "--lr", "5"});
  EXPECT_EQ(large.bptt, 35);
  EXPECT_EQ(*large.lr, 5);
  EXPECT_EQ(large.trainer.clip.limit, 0.25);
  EXPECT_EQ(large.trainer.schedule.text(), "plateau:0,0.25");
  EXPECT_EQ(parse({"--bptt", "7", "--model", "lstm-medium"}).bptt, 7);
}

}  // namespace
}  // namespace laconic
