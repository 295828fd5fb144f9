#include "dist/world.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

TEST(Fingerprint, PassesWhenAllRanksRunTheSame) {
  for (int N : {1, 2, 5}) on_ranks(N, [](Worker& w) { check_fingerprint(w.engine, "model=lenet\nbatch=32\n"); });
}

TEST(Fingerprint, NamesRanksAndFirstDifferenceOnAllRanks) {
  std::vector<std::string> told(4);
  on_ranks(4, [&](Worker& w) {
    try {
      check_fingerprint(w.engine, w.rank == 2 ? "model=lenet\nbatch=16\nseed=2\n" : "model=lenet\nbatch=32\nseed=1\n");
    } catch (const CommError& e) {
      told[static_cast<std::size_t>(w.rank)] = e.what();
    }
  });
  for (const std::string& sentence : told)
    EXPECT_EQ(sentence,
              "fingerprint: rank 2 has 'batch=16' where rank 0 has 'batch=32'. Start all ranks with the same program, "
              "options and data.");
}

TEST(Fingerprint, SeesALineThatIsMissing) {
  EXPECT_THROW(on_ranks(2, [](Worker& w) { check_fingerprint(w.engine, w.rank == 0 ? "a=1\n" : "a=1\nb=2\n"); }),
               CommError);
}

/// As where one rank has servers of its own kind, and tells of them first.
TEST(Fingerprint, NamesTheOptionThatDiffersWhereOneTellsMore) {
  expect_error<CommError>(
      [] {
        on_ranks(2, [](Worker& w) {
          check_fingerprint(w.engine, w.rank == 0 ? "seed=0\nservers=1\nlr=0.1\n"
                                                  : "model=lenet\nseed=0\nservers=colocated\nlr=0.1\n");
        });
      },
      {"rank 1 has 'servers=colocated' where rank 0 has 'servers=1'"});
  expect_error<CommError>(
      [] { on_ranks(2, [](Worker& w) { check_fingerprint(w.engine, w.rank == 0 ? "a=1\nb=2\n" : "b=2\n"); }); },
      {"rank 1 has nothing where rank 0 has 'a=1'"});
}

}  // namespace
}  // namespace laconic::dist
