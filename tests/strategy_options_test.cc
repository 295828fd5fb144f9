// The options of strategies that send little, and of parameter servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/method/ps/method.h"
#include "dist/method/redsync/method.h"
#include "tests/parsed_options.h"

namespace laconic {
namespace {

using namespace parsed_options;

/// The method's own class.
template <class Own>
const Own& of(const TrainOptions& o) {
  return dynamic_cast<const Own&>(*o.method);
}
using dist::RedSyncMethod, dist::ServedMethod;
using testing::EndsWith;

TEST(Options, CodecsOnTheWayToServersAndBack) {
  const TrainOptions o = parse({"--sync", "ps", "--codec", "inceptionn:2^-10", "--truncate-weights", "16"});
  EXPECT_EQ(o.trainer.plan.codec, "inceptionn:2^-10");
  EXPECT_EQ(of<ServedMethod>(o).truncate_weights, 16);
  EXPECT_EQ(o.type_of_service, 0x28);
  EXPECT_TRUE(parse({"--sync", "layerdrop", "--codec", "terngrad", "--codec-feedback"}).trainer.codec_feedback);
  EXPECT_EQ(parse({"--sync", "slimdp", "--codec", "qsgd:8:512"}).trainer.plan.codec, "qsgd:8:512");
  expect_refused({"--sync", "slimdp", "--codec", "qsgd:8:512", "--codec-feedback"},
                 "--sync slimdp gathers nothing that was not sent (--codec-feedback): leave it out");
  EXPECT_TRUE(parse({"--codec", "onebit"}).trainer.codec_feedback);
  expect_refused(
      {"--codec", "onebit", "--allreduce", "doubling"},
      "with doubling several ranks must come to the same bytes, and onebit adds what each has lost by itself "
      "(--codec): take --allreduce ring");
  expect_refused({"--sync", "slimdp", "--codec", "onebit"},
                 "--sync slimdp sends a choice of parameters, of which one bit says too little (--codec onebit): take "
                 "qsgd:8:512");
  expect_refused({"--sync", "redsync", "--selector", "auto", "--dense-below", "1GiB"},
                 "--selector auto says which parameters travel whole (--dense-below): leave one of the two out");
  EXPECT_EQ(
      of<ServedMethod>(parse({"--sync", "ps", "--local-aggregate", "4", "--allreduce", "butterfly"})).local_aggregate,
      4);
  expect_refused({"--sync", "slimdp", "--local-aggregate", "2"},
                 "--sync slimdp has no use for it (--local-aggregate): leave it out, or take --sync ps");
  expect_refused(
      {"--sync", "ps", "--local-aggregate", "2", "--allreduce", "nccl"},
      "NCCL joins all ranks, and no group of them (--local-aggregate): take --allreduce ring");
  expect_refused({"--truncate-weights", "16"},
                 "--sync allreduce has no use for it (--truncate-weights): leave it out, or take --sync ps");
  expect_refused({"--sync", "ps", "--truncate-weights", "32"},
                 "a float cannot lose 32 of its 32 bits (--truncate-weights): cut off 1 to 31, or 0 for none");
}

TEST(Options, OfStrategiesThatSendLittleAreRead) {
  const TrainOptions o = parse({"--sync",     "redsync",  "--density",        "0.01",
                                "--selector", "search",   "--qrgc",           "--no-qrgc-feedback",
                                "--no-mask",  "--warmup", "ramp:3",           "--index-coding",
                                "delta",      "--ledger", "--dump-gradients", "dump",
                                "--workers",  "2",        "--link",           "100mbit,1ms"});
  EXPECT_EQ(o.sync, "redsync");
  const dist::SparseOptions& sparse = of<RedSyncMethod>(o).options;
  EXPECT_DOUBLE_EQ(sparse.density, 0.01);
  EXPECT_EQ(sparse.selector, "search");
  EXPECT_TRUE(sparse.quantised && sparse.delta);
  EXPECT_FALSE(sparse.feedback || sparse.masking);
  EXPECT_EQ(sparse.warmup->to_string(), "ramp:3");
  EXPECT_DOUBLE_EQ(*trainer_options(o).seconds_per_byte, 8e-8);
  EXPECT_EQ(o.trainer.ledger_every, 100);
  EXPECT_EQ(o.trainer.dump_gradients, "dump");
  const TrainOptions plain = parse({"--sync", "redsync"});
  const dist::SparseOptions& d = of<RedSyncMethod>(plain).options;
  EXPECT_DOUBLE_EQ(d.density, 0.001);
  EXPECT_EQ(d.selector, "paper");
  EXPECT_TRUE(d.feedback && d.masking);
  EXPECT_FALSE(d.quantised || d.delta || d.warmup || plain.trainer.ledger_every);
  EXPECT_DOUBLE_EQ(of<RedSyncMethod>(parse({"--sync", "strom", "--threshold", "0.5"})).options.threshold, 0.5);
  EXPECT_EQ(parse({"--sync", "dgc", "--ledger", "7"}).trainer.ledger_every, 7);
}

TEST(Options, OfLowRank) {
  EXPECT_EQ(parse({"--sync", "powersgd", "--rank", "3", "--warmup", "dense:2"}).method->fingerprint(),
            "rank=3 warmup=dense:2");
  expect_refused({"--sync", "powersgd", "--warmup", "ramp:3"},
                 "powersgd has no density to begin with (--warmup): give dense:E, as dense:1");
  expect_refused({"--sync", "redsync", "--rank", "3"},
                 "--sync redsync has no use for it (--rank): leave it out, or take --sync powersgd");
  expect_refused({"--sync", "powersgd", "--codec", "fp16"},
                 "--sync powersgd adds up nothing that could pass through it (--codec): leave it out, or take --sync "
                 "allreduce");
}

TEST(Options, OfVotesOfSigns) {
  EXPECT_EQ(parse({"--sync", "signsgd", "--sign-scale", "none"}).method->fingerprint(), "sign-scale=none");
  expect_refused({"--sync", "signsgd", "--allreduce", "ring"},
                 "every worker of --sync signsgd counts a part of the votes (--allreduce): leave it out");
  expect_refused({"--sync", "signsgd", "--reduce", "sum"},
                 "a vote of signs is neither sum nor mean (--reduce): leave it out");
  expect_refused({"--sync", "signsgd", "--sign-scale", "none", "--clip", "value:1"},
                 "a vote of signs is 1 or -1, whatever the gradient (--clip): give --clip none");
  EXPECT_EQ(parse({"--sync", "signsgd", "--clip", "norm:1"}).trainer.clip.limit, 1)
      << "the mean magnitude has a length";
}

TEST(Options, NoFusionByCopyWhereMessagesAreCopies) {
  for (const std::vector<const char*>& method :
       std::vector<std::vector<const char*>>{{"signsgd"},
                                             {"demo"},
                                             {"ef21"},
                                             {"onebit-adam", "--optimizer", "adam"},
                                             {"rounds", "--density", "0.03"},
                                             {"rounds", "--pairs", "--outer", "momentum"}}) {
    std::vector<const char*> words{"--sync"};
    words.insert(words.end(), method.begin(), method.end());
    words.insert(words.end(), {"--fusion", "copy:1MiB"});
    expect_refused(words,
                   concat("every message of --sync ", method[0], " is a copy (--fusion copy): take lazy:SIZE or none"));
    words.back() = "lazy:2MiB";
    EXPECT_EQ(parse(words).trainer.plan.bucket_bytes, std::size_t{2} << 20);
  }
  EXPECT_EQ(parse({"--sync", "rounds", "--fusion", "copy:1MiB"}).trainer.plan.bucket_bytes, std::size_t{1} << 20);
}

TEST(Options, OfSignsOfMomentum) {
  EXPECT_EQ(parse({"--sync", "onebit-adam", "--optimizer", "adamw", "--onebit-warmup", "7"}).method->fingerprint(),
            "onebit-warmup=7 onebit-refresh=0");
  expect_refused({"--sync", "onebit-adam"},
                 "--sync onebit-adam sends the momentum of Adam, and this is sgd (--optimizer): take --optimizer adam "
                 "or adamw");
  expect_refused({"--sync", "onebit-adam", "--optimizer", "adam", "--clip", "norm:1"},
                 "--sync onebit-adam joins momentum, and nobody knows the joined gradient (--clip): give --clip none, "
                 "or take --sync allreduce");
  expect_refused({"--sync", "onebit-adam", "--optimizer", "adam", "--reduce", "sum"},
                 "what is sent is the mean of all workers' momentum (--reduce): leave it out");
  expect_refused({"--sync", "demo", "--onebit-warmup", "7"},
                 "--sync demo has no use for it (--onebit-warmup): leave it out, or take --sync onebit-adam");
}

TEST(Options, OfDecoupledMomentum) {
  EXPECT_EQ(
      parse({"--sync", "demo", "--demo-topk", "8", "--demo-chunk", "32", "--demo-decay", "0.9"}).method->fingerprint(),
      "demo-topk=8 demo-chunk=32 demo-decay=0.9 demo-update=sign");
  expect_refused({"--sync", "demo", "--demo-chunk", "257"},
                 "a place in such a chunk has more than 16 bits (--demo-chunk 257): give at most 256");
  expect_refused({"--sync", "demo", "--demo-decay", "1"},
                 "no gradient would ever be forgotten (--demo-decay 1): give less, as 0.999");
  expect_refused({"--sync", "demo", "--reduce", "sum"},
                 "a sign is neither sum nor mean (--reduce): leave it out, or take --demo-update sum");
  expect_refused({"--sync", "demo", "--allreduce", "ring"},
                 "what --sync demo sends goes from all to all (--allreduce): leave it out");
  expect_refused({"--sync", "demo", "--clip", "norm:1"},
                 "a sign is 1 or -1, whatever the gradient (--clip): give --clip none, or take --demo-update sum");
  EXPECT_EQ(parse({"--sync", "demo", "--demo-update", "sum", "--clip", "norm:1"}).trainer.clip.limit, 1);
}

TEST(Options, OfErrorFeedbackOfMomentum) {
  EXPECT_EQ(parse({"--sync", "ef21"}).method->fingerprint(), "density=0.001 selector=exact ef21-eta=0.1");
  EXPECT_EQ(
      parse({"--sync", "ef21", "--density", "0.02", "--selector", "search", "--ef21-eta", "1"}).method->fingerprint(),
      "density=0.02 selector=search ef21-eta=1");
  expect_refused({"--sync", "ef21", "--density", "0"}, "nothing would ever be sent (--density 0): give more, as 0.001");
  expect_refused({"--sync", "ef21", "--ef21-eta", "0"},
                 "no gradient would ever count but the first (--ef21-eta 0): give more, as 0.1");
  expect_refused({"--sync", "ef21", "--allreduce", "ring"},
                 "what --sync ef21 sends goes from all to all (--allreduce): leave it out");
  expect_refused({"--sync", "ef21", "--qrgc"},
                 "--sync ef21 has no use for it (--qrgc): leave it out, or take --sync redsync");
}

TEST(Options, WhatIsSentLittleTravelsByNcclToo) {
  EXPECT_EQ(parse({"--sync", "redsync", "--allreduce", "nccl"}).trainer.plan.allreduce, "nccl");
}

TEST(Options, OfStrategiesThatSendLittleAreRefusedElsewhere) {
  expect_refused({"--density", "0.01"},
                 "--sync allreduce has no use for it (--density): leave it out, or take --sync redsync");
  for (const char* option : {"--qrgc", "--no-mask", "--ledger"})
    expect_refused({option}, std::string("--sync allreduce has no use for it (") + option +
                                 "): leave it out, or take --sync redsync");
  expect_refused({"--sync", "topk", "--selector", "exact"},
                 "--sync topk has no use for it (--selector): leave it out, or take --sync redsync");
  expect_refused({"--sync", "topk", "--no-mask"},
                 "--sync topk has no use for it (--no-mask): leave it out, or take --sync redsync");
  expect_refused({"--sync", "randomk", "--index-coding", "delta"},
                 "--sync randomk has no use for it (--index-coding): leave it out, or take --sync redsync");
  expect_refused({"--sync", "redsync", "--threshold", "1"},
                 "--sync redsync has no use for it (--threshold): leave it out, or take --sync strom");
  expect_refused({"--sync", "redsync", "--no-qrgc-feedback"},
                 "without one sign at a time nothing is left out (--no-qrgc-feedback): add --qrgc, or leave it out");
  expect_refused({"--sync", "redsync", "--qrgc", "--qrgc-feedback", "--no-qrgc-feedback"},
                 "the two contradict each other (--qrgc-feedback and --no-qrgc-feedback): leave one of them out");
  expect_refused({"--sync", "redsync", "--density", "0"},
                 "a share of 0 of the elements is not to be had (--density): give more than 0 and at most 1, as 0.001");
  expect_refused({"--sync", "redsync", "--warmup", "slow:3"},
                 "'slow:3' is no warm-up (--warmup): give none, dense:E or ramp:E with E epochs, as ramp:4");
  expect_refused({"--sync", "redsync", "--optimizer", "adam"},
                 "--sync redsync corrects the momentum of sgd on every worker, adam has none of that kind "
                 "(--optimizer): take --optimizer sgd, or --sync topk");
  expect_refused({"--sync", "topk", "--clip", "value:1"},
                 "--sync topk limits the length of each worker's gradient, not its elements (--clip): give --clip "
                 "norm:X");
}

TEST(Options, OfParameterServers) {
  EXPECT_FALSE(parse({}).servers);
  EXPECT_EQ(parse({"--sync", "ps"}).servers, 1);
  EXPECT_EQ(parse({"--sync", "ps", "--servers", "3"}).servers, 3);
  EXPECT_EQ(parse({"--sync", "slimdp", "--servers", "colocated"}).servers, 0);
  const TrainOptions dropping =
      parse({"--sync", "layerdrop", "--drop-ratio", "0.97", "--threshold-every", "0", "--layerdrop-norm", "l2",
             "--layerdrop-max-age", "7", "--layerdrop-unit", "parameter"});
  EXPECT_THAT(dropping.method->fingerprint(),
              EndsWith("drop-ratio=0.97 threshold-every=0 layerdrop-norm=l2 layerdrop-max-age=7 "
                       "layerdrop-unit=parameter"));
  for (const auto& [words, bytes] :
       {std::pair<std::vector<const char*>, std::size_t>{{}, 256 << 10}, {{"--chunk", "1MiB"}, 1 << 20}}) {
    std::vector<const char*> rows{"--sync", "layerdrop", "--layerdrop-unit", "rows"};
    rows.insert(rows.end(), words.begin(), words.end());
    const TrainOptions o = parse(rows);
    dist::PlanOptions plan = o.trainer.plan;
    o.method->shape(plan, {});
    EXPECT_EQ(plan.chunk_bytes, bytes);
  }
  const TrainOptions choosing =
      parse({"--sync", "slimdp", "--alpha", "0.2", "--explore", "0.1", "--core-every", "5", "--local-steps", "3",
             "--slim-scope", "model", "--explorer-keys", "sent", "--slim-residual"});
  EXPECT_THAT(choosing.method->fingerprint(),
              testing::HasSubstr("alpha=0.2 explore=0.1 core-every=5 local-steps=3 slim-scope=model "
                                 "explorer-keys=sent slim-residual=1"));
  EXPECT_TRUE(
      parse({"--sync", "ps", "--link", "1gbit,1ms", "--link-of", "1=10mbit,1ms"}).link);  // one worker, one server
}

TEST(Options, OfRoundsGoByOneAnother) {
  const auto decided = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"--sync", "rounds"});
    return parse(words).method->fingerprint();
  };
  EXPECT_EQ(decided({}),
            "every=8 outer=sgd outer-lr=1 outer-momentum=0 pairs=0 pull=1 fragments=1 delay=0 mix=0 density=none "
            "outer-feedback=0.95 "
            "value-bits=2 "
            "warmup=none");
  EXPECT_EQ(
      decided({"--every", "30", "--outer", "nesterov", "--fragments", "4", "--delay", "5", "--warmup", "dense:2"}),
      "every=30 outer=nesterov outer-lr=0.7 outer-momentum=0.9 pairs=0 pull=0.7 fragments=4 delay=5 mix=0.5 "
      "density=none "
      "outer-feedback=0.95 value-bits=2 warmup=dense:2");
  EXPECT_EQ(decided({"--outer", "momentum", "--outer-lr", "0.8", "--outer-momentum", "0.6", "--mix", "0.25"}),
            "every=8 outer=momentum outer-lr=0.8 outer-momentum=0.6 pairs=0 pull=0.8 fragments=1 delay=0 mix=0.25 "
            "density=none "
            "outer-feedback=0.95 value-bits=2 warmup=none");
  EXPECT_EQ(decided({"--density", "0.03", "--outer-feedback", "0.9", "--value-bits", "32"}),
            "every=8 outer=sgd outer-lr=1 outer-momentum=0 pairs=0 pull=1 fragments=1 delay=0 mix=0 density=0.03 "
            "outer-feedback=0.9 "
            "value-bits=32 warmup=none");
  EXPECT_EQ(decided({"--pairs", "--outer", "momentum"}),
            "every=8 outer=momentum outer-lr=0.7 outer-momentum=0.5 pairs=1 pull=0.7 fragments=1 delay=0 mix=0 "
            "density=none outer-feedback=0.95 value-bits=2 warmup=none");
}

TEST(Options, ThatMakeNoSenseOfRoundsAreRefused) {
  const auto refused = [](std::vector<const char*> words, const std::string& sentence) {
    words.insert(words.begin(), {"--sync", "rounds"});
    expect_refused(words, sentence);
  };
  refused({"--every", "9000000000000000000"}, "9000000000000000000 is too much (--every): give at most 1000000000");
  refused(
      {"--delay", "8"},
      "the next exchange would begin before the last one has arrived (--delay 8): give less than --every, which is 8");
  refused({"--mix", "1"}, "what workers have learned would never be taken over (--mix 1): give less, as 0.5");
  refused({"--outer-lr", "0"}, "what workers have learned would never be used (--outer-lr 0): give more, as 0.7");
  refused({"--outer", "momentum", "--outer-momentum", "1"},
          "no change would ever be forgotten (--outer-momentum 1): give less, as 0.9");
  refused({"--outer-momentum", "0.9"},
          "--outer sgd has none (--outer-momentum): leave it out, or take --outer momentum or nesterov");
  refused({"--warmup", "ramp:2"}, "rounds have no density that could fall (--warmup ramp): take --warmup dense:E");
  refused({"--fragments", "2", "--fusion", "none"},
          "--fragments are made of layers, and each layer travels as one message (--fusion): leave one of the two out");
  refused({"--codec", "onebit", "--allreduce", "doubling"},
          "with doubling several ranks must come to the same bytes, and onebit adds what each has lost by itself "
          "(--codec): take --allreduce ring");
  refused({"--density", "0"}, "nothing would ever be sent (--density 0): give more, as 0.03");
  refused({"--outer-feedback", "0.9"},
          "all is sent, and nothing kept (--outer-feedback): leave it out, or add --density");
  refused({"--value-bits", "2"}, "sums have --codec instead (--value-bits): leave it out, or add --density");
  refused({"--density", "0.03", "--codec", "bf16"},
          "what is chosen (--density) has --value-bits (--codec): leave one of the two out");
  refused({"--density", "0.03", "--allreduce", "tree:2"},
          "what is chosen (--density) goes from each worker to all (--allreduce): leave one of the two out");
  for (const char* sparse : {"--density=0.03", "--pairs"})  // a dense epoch is added up
    EXPECT_EQ(
        parse({"--sync", "rounds", sparse, "--warmup", "dense:1", "--allreduce", "tree:2"}).trainer.plan.allreduce,
        "tree:2");
  refused({"--pull", "0.5"}, "all workers have one outer model (--pull): leave it out, or add --pairs");
  refused(
      {"--pairs", "--outer", "nesterov"},
      "the pull of --pairs is known to hold workers together without looking ahead (--outer nesterov): take --outer "
      "momentum");
  refused({"--pairs", "--density", "0.03"},
          "what is chosen (--density) goes from each worker to all (--pairs): leave one of the two out");
  refused({"--pairs", "--reduce", "sum"}, "a pair takes its mean (--pairs) (--reduce sum): leave one of the two out");
  refused({"--pairs", "--allreduce", "ring"},
          "workers meet in --pairs, and nothing is added up over all (--allreduce): leave one of the two out");
  refused({"--pairs", "--codec", "bf16"},
          "what two workers send (--pairs) has their weights in it, which must not be rounded (--codec): leave one of "
          "the two out");
  refused({"--workers", "4", "--pairs", "--outer", "momentum", "--outer-momentum", "0.9"},
          "pairs would drive workers further apart in every round (--pull 0.7): give less than 0.38, or a smaller "
          "--outer-momentum");
  refused({"--servers", "1"}, "--sync rounds has no use for it (--servers): leave it out, or take --sync ps");
}

TEST(Options, ThatServersHaveNoUseForAreRefused) {
  expect_refused({"--servers", "2"}, "--sync allreduce has no use for it (--servers): leave it out, or take --sync ps");
  expect_refused({"--sync", "ps", "--servers", "0"},
                 "'0' is no number of servers (--servers): give one, as --servers 1, or colocated");
  expect_refused({"--sync", "ps", "--drop-ratio", "0.5"},
                 "--sync ps has no use for it (--drop-ratio): leave it out, or take --sync layerdrop");
  expect_refused({"--sync", "layerdrop", "--drop-ratio", "1"},
                 "then nothing would ever be sent (--drop-ratio): give less than 1, as 0.97");
  expect_refused({"--sync", "layerdrop", "--layerdrop-norm", "l3"},
                 "unknown value 'l3' (--layerdrop-norm): did you mean l1? There are mean, l1, l2.");
  expect_refused({"--sync", "layerdrop", "--alpha", "0.5"},
                 "--sync layerdrop has no use for it (--alpha): leave it out, or take --sync slimdp");
  expect_refused(
      {"--sync", "slimdp", "--alpha", "0.1"},
      "an explorer of 0.15 does not fit in a share of 0.1 (--explore): give at least 0 and at most --alpha, as 0.15");
  expect_refused({"--sync", "ps", "--allreduce", "ring"},
                 "--sync ps has no use for it (--allreduce): leave it out: there is a server in its place");
  expect_refused(
      {"--sync", "layerdrop", "--chunk", "none"},
      "--sync layerdrop has no use for it (--chunk): leave it out: a layer travels as a whole, or not at all");
}

}  // namespace
}  // namespace laconic
