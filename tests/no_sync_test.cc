#include "dist/method/none/no_sync.h"

#include "tests/dense_training.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using namespace dense_training;

TEST(NoSync, UpdatesEachWorkerAlone) {
  on_ranks(2, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    std::vector<float> start = arena.values().to_vector();
    NoSync sync(arena, sgd);
    train(sync, arena, w.rank, 1, 1);
    const std::vector<float> values = arena.values().to_vector();
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i)
        ASSERT_FLOAT_EQ(values[i], start[i] - 0.1f * gradient_at(w.rank, 1, i, start[i]));
    EXPECT_EQ(w.engine.counters().sent.messages, 0u);
  });
}

TEST(NoSync, UpdatesEveryRowOnceWhenItIsAskedFor) {
  std::string said;
  const auto p = std::make_shared<Parameter>(Shape{10, 2}, Role::linear);
  const ParameterArena arena({p});
  NoSync sync(arena, [&](Parameter&, Rows rows, const StepContext& c) {
    EXPECT_EQ(c.gradient_scale, 1);
    said += concat(rows.first, ":", rows.count, " ");
  });
  sync.begin_step({});
  for (const Rows rows : {Rows{4, 6}, Rows{0, 3}, Rows{3, 1}}) sync.gradient_ready(*p, rows);
  sync.before_forward(*p, {2, 4});
  EXPECT_EQ(said, "4:2 2:2 ");
  sync.before_forward(*p, {2, 4});
  EXPECT_EQ(said, "4:2 2:2 ");
  sync.flush();
  EXPECT_EQ(said, "4:2 2:2 6:4 0:2 ");
}

}  // namespace
}  // namespace laconic::dist
