// RedSync when something goes wrong: exceptions, NaN, messages that are none, ranks that do not come.
#include <chrono>
#include <thread>

#include "tests/redsync_training.h"

namespace laconic::dist {
namespace {

TEST(RedSync, AnExceptionOfTheWorkerLeavesNoOperationInFreedMemory) {
  EXPECT_THROW(on_ranks(3,
                        [&](Worker& w) {
                          Training t(w, {});
                          t.steps(1, 3);
                          t.sync->begin_step({.step = 4, .lr = 1});
                          for (const auto& p : t.arena.parameters()) {
                            if (w.rank == 1 && p->info.index == 5) throw DataError("a bad image");
                            t.sync->gradient_ready(*p, p->all_rows());
                          }
                          t.sync->flush();
                        }),
               DataError);
}

TEST(RedSync, AGradientThatIsNotANumberIsSaidSo) {
  std::string said;
  try {
    on_ranks(2, [&](Worker& w) {
      Training t(w, {});
      t.sync->begin_step({.step = 1, .lr = 1});
      for (const auto& p : t.arena.parameters()) {
        raw::fill(p->grad(), 1.0f);
        if (p->info.name == "fc1.weight" && w.rank == 1) p->grad().data<float>()[77] = std::nanf("");
        t.sync->gradient_ready(*p, p->all_rows());
      }
      t.sync->flush();
    });
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("the residual of fc1.weight at step 1"), std::string::npos) << said;
}

TEST(RedSync, AMessageThatIsNoneEndsWithTheRankThatSentIt) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{3}, std::size_t{4}, std::size_t{40}}) {
    SCOPED_TRACE(concat(length, " bytes"));
    std::string said;
    try {
      on_ranks(2, [&](Worker& w) {
        Settings s;
        s.sparse.density = 0.1;
        Training t(w, s);
        if (w.rank == 0) {
          t.sync->begin_step({.step = 1, .lr = 1});
          Parameter& p = *t.arena.parameters()[7];  // fc1.weight
          for (const Rows rows : {Rows{0, 16}, Rows{16, 48}}) t.sync->gradient_ready(p, rows);
          t.sync->flush();
          return;
        }
        // That slot: after the dense ones come those of parameters with a choice, in arena order.
        int slot = 1 + static_cast<int>(t.sync->plan().buckets.size());
        for (int i = 0; i < 7; ++i) slot += t.sync->plan().sparse(i);
        const std::vector<std::byte> garbage(length, std::byte{0xEE});
        Gathered all;
        const std::size_t most = SparseWire{}.max_bytes(640, 6400);
        const Ticket ticket = w.engine.submit({.name = "garbage", .slot = slot, .body = [&](Communicator& comm) {
                                                 return allgatherv(comm, slice(garbage), most, all);
                                               }});
        w.engine.wait(ticket);
      });
    } catch (const CommError& e) {
      said = e.what();
    }
    EXPECT_NE(said.find("rank 1 sent"), std::string::npos) << said;
  }
}

TEST(RedSync, ATimeOutSaysAtWhatParameterARankComputes) {
  for (const bool forward : {false, true}) try {
      on_ranks(
          2,
          [&](Worker& w) {
            Training t(w, {});
            t.sync->begin_step({.step = 1, .lr = 1});
            for (const auto& p : t.arena.parameters()) {
              if (w.rank == 1 && p->info.name == "one") break;
              raw::fill(p->grad(), 1.0f);
              t.sync->gradient_ready(*p, p->all_rows());
            }
            if (w.rank == 0) return t.sync->flush();
            Parameter& fc2 = *t.arena.parameters()[4];
            if (forward) t.sync->before_forward(fc2, fc2.all_rows());
            while (true) {  // until rank 0 has ended all
              (void)w.engine.submit({.name = "nothing", .slot = 0, .body = [](Communicator&) -> Task<> { co_return; }});
              std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
          },
          6.0);  // a rank that gets no processor for half of it would count as silent
      FAIL();
    } catch (const CommError& e) {
      const std::string expected = concat("Rank 1 computes, last seen in ", forward ? "forward at " : "backward at ",
                                          "fc2.weight; its last operation, ");
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace laconic::dist
