// The ground that CUDA code stands on: memory, streams, events, copies, launches. On a GPU, or the emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "core/cuda/libraries.h"
#include "core/parameter.h"
#include "core/raw.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/installed_library.h"
#include "tests/launch_kernels.h"
#include "tests/test_devices.h"

namespace laconic {
namespace {

using CudaDeathTest = CudaTest;

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

TEST_F(CudaTest, TensorsAreFilledAndCopied) {
  const Tensor t = Tensor::full({1000}, 1.5f, kCuda);
  EXPECT_EQ(t.to_vector(), std::vector<float>(1000, 1.5f));
  EXPECT_EQ(Tensor::zeros({3}, DType::f32, kCuda).to_vector(), std::vector<float>(3, 0.0f));
  const Tensor u = Tensor::of({3}, {1, 2, 3}, kCuda);
  t.range(5, 3).copy_from(u);
  const std::vector<float> values = t.to_vector();
  EXPECT_EQ(values[4], 1.5f);
  EXPECT_EQ(values[6], 2.0f);
  EXPECT_EQ(Tensor::of({3}, std::vector<std::int64_t>{5, 6, 7}, kCuda).to_vector(), (std::vector<float>{5, 6, 7}));
  EXPECT_EQ(Tensor::empty({0}, DType::f32, kCuda).to_vector(), std::vector<float>{});
}

TEST_F(CudaTest, MapReachesEveryElementOnce) {
  for (const std::int64_t n : {0, 1, 31, 32, 255, 256, 257, 1000003}) {
    const Tensor t = Tensor::zeros({n}, DType::f32, kCuda);
    tests::add_index(t.data<float>(), n);
    EXPECT_EQ(t.to_vector(), counting(static_cast<std::size_t>(n))) << n;
  }
}

TEST_F(CudaTest, DivisorsDivide) {
  std::vector<std::int64_t> x;
  for (const std::int64_t around :
       {std::int64_t{2}, std::int64_t{1000}, std::int64_t{1} << 31, std::int64_t{1} << 32, std::int64_t{1} << 62})
    for (int by = -2; by <= 2; ++by) x.push_back(around + by);
  x.push_back(std::numeric_limits<std::int64_t>::max());
  const auto n = static_cast<std::int64_t>(x.size());
  const Placed<std::int64_t> there(x, kCuda), quotients(x, kCuda), rests(x, kCuda);
  for (const std::int64_t d : std::vector<std::int64_t>{1, 2, 3, 7, 64, 641, (1 << 30) + 1, x[20], x.back()}) {
    tests::divide(quotients.slice().data(), rests.slice().data(), there.slice().data(), n, d);
    const auto got = host_values(quotients.slice()), left = host_values(rests.slice());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(got[i], x[i] / d) << x[i] << " by " << d;
      EXPECT_EQ(left[i], x[i] % d) << x[i] << " by " << d;
    }
  }
}

TEST_F(CudaTest, BlocksReduce) {
  const Tensor x = Tensor::of({300}, std::span<const float>(counting(300)), kCuda);
  for (const int threads : {32, 64, 256, 1024}) {
    const Tensor sums = Tensor::empty({3}, DType::f32, kCuda), largest = Tensor::empty({3}, DType::f32, kCuda);
    tests::sum_hundreds(sums.data<float>(), largest.data<float>(), x.data<float>(), 3, threads);
    EXPECT_EQ(sums.to_vector(), (std::vector<float>{4950, 14950, 24950})) << threads;
    EXPECT_EQ(largest.to_vector(), (std::vector<float>{99, 199, 299})) << threads;
  }
}

TEST_F(CudaTest, WarpsAndBlocksVote) {
  std::vector<std::int32_t> flags(128);
  for (int i = 0; i < 128; ++i) flags[static_cast<std::size_t>(i)] = i % 3 == 0 || i == 127;
  const Tensor f = Tensor::empty({128}, DType::i32, kCuda), ballots = Tensor::empty({128}, DType::i32, kCuda),
               counts = Tensor::empty({128}, DType::i32, kCuda);
  copy_bytes(f.raw_data(), kCuda, flags.data(), kCpu, 512);
  tests::votes(static_cast<unsigned*>(ballots.raw_data()), counts.data<std::int32_t>(), f.data<std::int32_t>(), 128);
  std::vector<std::int32_t> got(128), count(128);
  copy_bytes(got.data(), kCpu, ballots.raw_data(), kCuda, 512);
  copy_bytes(count.data(), kCpu, counts.raw_data(), kCuda, 512);
  for (int i = 0; i < 128; ++i) {
    unsigned votes = 0;
    for (int lane = 0; lane < 32; ++lane)
      votes |= static_cast<unsigned>(flags[static_cast<std::size_t>(i / 32 * 32 + lane)]) << lane;
    EXPECT_EQ(static_cast<unsigned>(got[static_cast<std::size_t>(i)]), votes) << i;
    EXPECT_EQ(count[static_cast<std::size_t>(i)],
              std::accumulate(flags.begin() + i / 64 * 64, flags.begin() + i / 64 * 64 + 64, 0))
        << i;
  }
}

TEST_F(CudaTest, LanesSeeTheirNeighbours) {
  std::vector<std::int32_t> x(32), up(32), down(32);
  std::iota(x.begin(), x.end(), 100);
  const Tensor t = Tensor::empty({3, 32}, DType::i32, kCuda);
  auto* p = t.data<std::int32_t>();
  copy_bytes(p, kCuda, x.data(), kCpu, 128);
  tests::neighbours(p + 32, p + 64, p);
  copy_bytes(up.data(), kCpu, p + 32, kCuda, 128);
  copy_bytes(down.data(), kCpu, p + 64, kCuda, 128);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(up[static_cast<std::size_t>(i)], 100 + std::max(i - 1, 0));
    EXPECT_EQ(down[static_cast<std::size_t>(i)], 100 + std::min(i + 1, 31));
  }
}

TEST_F(CudaTest, AtomicsCount) {
  std::vector<std::int32_t> x(1000);
  std::iota(x.begin(), x.end(), 0);
  const Tensor values = Tensor::empty({1000}, DType::i32, kCuda), counts = Tensor::zeros({10}, DType::i32, kCuda);
  copy_bytes(values.raw_data(), kCuda, x.data(), kCpu, 4000);
  tests::count_digits(static_cast<unsigned*>(counts.raw_data()), values.data<std::int32_t>(), 1000);
  EXPECT_EQ(counts.to_vector(), std::vector<float>(10, 100.0f));
}

TEST_F(CudaTest, WhatAKernelFindsIsThrownOnce) {
  const Tensor labels = Tensor::of({4}, std::vector<std::int64_t>{0, 9, 10, 3}, kCuda);
  tests::report_from(labels.data<std::int64_t>(), 4, 10);
  EXPECT_EQ(error_of<Error>([] { synchronize(kCuda); }),
            "label 10 at position 2 is not in [0, 10). Check the data, or build the model with more classes or a "
            "larger vocabulary.");
  EXPECT_NO_THROW(synchronize(kCuda));
  tests::report_from(labels.data<std::int64_t>(), 4, 11);
  EXPECT_NO_THROW(synchronize(kCuda));
}

TEST_F(CudaTest, AnEventOrdersTheWorkOfTwoThreads) {
  for (int round = 0; round < 20; ++round) {
    const Tensor a = Tensor::zeros({1000}, DType::f32, kCuda), b = Tensor::empty({1000}, DType::f32, kCuda);
    const Event zeroed = Event::now(kCuda);
    Event added;
    std::thread([&] {
      zeroed.wait();
      tests::add_index(a.data<float>(), 1000);
      added = Event::now(kCuda);
    }).join();
    added.wait();
    b.copy_from(a);
    EXPECT_EQ(b.to_vector(), counting(1000));
    EXPECT_TRUE(added.reached());
  }
}

TEST_F(CudaTest, AnEventIsReachedByWaitingOrAsking) {
  const Tensor a = Tensor::zeros({1000}, DType::f32, kCuda);
  tests::add_index(a.data<float>(), 1000);
  const Event first = Event::now(kCuda);
  first.synchronize();
  EXPECT_TRUE(first.reached());
  tests::add_index(a.data<float>(), 1000);
  const Event second = Event::now(kCuda);
  while (!second.reached()) std::this_thread::yield();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "that it was not reached yet is no error";
  EXPECT_TRUE(Event().reached());
  EXPECT_TRUE(Event::now(kCpu).reached());
}

TEST_F(CudaTest, PinnedMemoryIsCopiedLater) {
  Pinned up(4000, kCuda), down(4000, kCuda);
  const std::vector<float> values = counting(1000);
  std::memcpy(up.data(), values.data(), 4000);
  const Tensor t = Tensor::empty({1000}, DType::f32, kCuda);
  copy_bytes_later(t.raw_data(), kCuda, up.data(), kCpu, 4000);
  tests::add_index(t.data<float>(), 1000);
  copy_bytes_later(down.data(), kCpu, t.raw_data(), kCuda, 4000);
  Event::now(kCuda).synchronize();
  std::vector<float> got(1000);
  std::memcpy(got.data(), down.data(), 4000);
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(got[i], 2 * values[i]);
  const std::byte* address = up.data();
  up = Pinned();
  EXPECT_EQ(Pinned(4000, kCuda).data(), address) << "pinned blocks are kept";
}

TEST_F(CudaTest, MemoryIsCountedAndUsedAgain) {
  { const Tensor warm = Tensor::empty({1 << 20}, DType::f32, kCuda); }
  reset_peak(kCuda);
  const MemoryStats before = memory_stats(kCuda);
  {
    const Tensor t = Tensor::empty({1 << 20}, DType::f32, kCuda);
    EXPECT_EQ(memory_stats(kCuda).in_use_bytes, before.in_use_bytes + (4 << 20));
  }
  { const Tensor t = Tensor::empty({1 << 20}, DType::f32, kCuda); }
  const MemoryStats after = memory_stats(kCuda);
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_EQ(after.peak_bytes, before.in_use_bytes + (4 << 20));
  EXPECT_EQ(after.allocations, before.allocations + 2);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(after.from_system, before.from_system);
  EXPECT_GE(after.reserved_bytes, std::size_t{4} << 20);
  release_unused_memory(kCuda);
  EXPECT_LT(memory_stats(kCuda).reserved_bytes, after.reserved_bytes);
#endif
}

TEST_F(CudaTest, AThreadMayFreeWhatAnotherMade) {
  // Freed by a thread whose work still reads it: the maker must not get the memory before that is done.
  for (int round = 0; round < 10; ++round) {
    auto shared = std::make_unique<Tensor>(Tensor::full({100000}, 3, kCuda));
    const Event made = Event::now(kCuda);
    const Tensor sum = Tensor::zeros({100000}, DType::f32, kCuda);
    const Event zeroed = Event::now(kCuda);
    Event added;
    std::thread([&] {
      made.wait();
      zeroed.wait();
      copy_bytes(sum.raw_data(), kCuda, shared->raw_data(), kCuda, 400000);
      added = Event::now(kCuda);
      shared.reset();
    }).join();
    const Tensor other = Tensor::full({100000}, 7, kCuda);
    EXPECT_EQ(other.to_vector()[99999], 7.0f);
    added.wait();
    EXPECT_EQ(sum.to_vector(), std::vector<float>(100000, 3.0f));
  }
}

TEST_F(CudaTest, StreamsOutliveTheirThreads) {
  Tensor t;
  std::thread([&] { t = Tensor::full({1000}, 2, kCuda), synchronize(kCuda); }).join();
  std::thread([&] { EXPECT_EQ(t.to_vector(), std::vector<float>(1000, 2.0f)); }).join();
  t = Tensor();
}

TEST_F(CudaTest, EveryDeviceHasItsOwn) {
  if (cuda_devices() < 2) GTEST_SKIP() << "only one CUDA device here";
  const Device second{Device::Kind::cuda, 1};
  const Tensor a = Tensor::full({100}, 4, second);
  EXPECT_EQ(a.device(), second);
  const Tensor b = Tensor::empty({100}, DType::f32, kCuda);
  b.copy_from(a);
  EXPECT_EQ(b.to_vector(), std::vector<float>(100, 4.0f));
  const Tensor half = raw::cast(Tensor::full({100}, 0.5f, kCuda), DType::bf16);
  raw::fill(a, 1.0f);  // the thread turns to another device
  raw::add_into(b, half);
  EXPECT_EQ(b.to_vector(), std::vector<float>(100, 4.5f));
}

TEST_F(CudaTest, ErrorsNameTheDeviceAndTheWayOut) {
  const Device missing{Device::Kind::cuda, 99};
  EXPECT_EQ(error_of<Error>([&] { Tensor::empty({1}, DType::f32, missing); }),
            concat("device cuda:99: there are only ", cuda_devices(),
                   ", numbered from 0. Use `device` cpu, or another index."));
  const std::string full = error_of<Error>([] { Tensor::empty({std::int64_t{1} << 40}, DType::f32, kCuda); });
  EXPECT_NE(full.find("has no room for 4398046511104 bytes more"), std::string::npos) << full;
  EXPECT_EQ(Tensor::full({10}, 1, kCuda).to_vector(), std::vector<float>(10, 1.0f)) << "the device goes on";
}

TEST(CudaDevices, WithoutOneTheErrorSaysSo) {
  if (cuda_devices() > 0) GTEST_SKIP() << "there is a CUDA device here";
  const std::string error = error_of<Error>([] { Tensor::empty({1}, DType::f32, kCuda); });
  EXPECT_NE(error.find("CUDA"), std::string::npos) << error;
}

#ifdef LACONIC_CUDA_EMULATED  // a GPU is not to be filled
TEST_F(CudaTest, AnArenaWhoseGradientsFindNoRoomLeavesItsParameters) {
  constexpr std::int64_t kElements = 4 << 20;  // 16 MiB
  const auto trained = std::make_shared<Parameter>(Shape{kElements}, Role::linear);
  const auto frozen = std::make_shared<Parameter>(Shape{3}, Role::linear);
  raw::fill(trained->value(), 2.0f), frozen->freeze();
  std::vector<Tensor> filling;
  {
    const Tensor for_the_values = Tensor::empty({5 << 20}, DType::f32, kCuda);  // 20 MiB
    for (std::int64_t elements = std::int64_t{1} << 29; elements >= 1 << 18; elements /= 2) try {
        for (;;) filling.push_back(Tensor::empty({elements}, DType::f32, kCuda));
      } catch (const Error&) {  // no room for one more of this size
      }
  }
  const auto make = [&] { ParameterArena arena({trained, frozen}, kCuda); };
  const std::string full = error_of<Error>(make);
  EXPECT_NE(full.find("has no room"), std::string::npos) << full;
  frozen->freeze(false), frozen->freeze();
  filling.clear();
  EXPECT_NO_THROW(make()) << "they belong to no arena";
  EXPECT_EQ(trained->value().to_vector(), std::vector<float>(kElements, 2.0f));
}
#endif

#if defined(LACONIC_CUDA_EMULATED) && defined(__SANITIZE_ADDRESS__)
TEST_F(CudaDeathTest, TheSanitizerSeesAKernelWriteTooFar) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Tensor t = Tensor::zeros({100}, DType::f32, kCuda);
        tests::add_index(t.data<float>(), 101);
        synchronize(kCuda);
      },
      "heap-buffer-overflow");
}
#endif

#if defined(LACONIC_CUDA_EMULATED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What the emulated device is strict about.
TEST_F(CudaDeathTest, TheHostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor t = Tensor::zeros({16}, DType::f32, kCuda);
  EXPECT_DEATH({ *static_cast<volatile float*>(t.data<float>()) = 1; }, "");
}
TEST_F(CudaDeathTest, AWarpMustBeWholeToTalk) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        tests::miss_barrier();
        synchronize(kCuda);
      },
      "emulated CUDA device: .*thread");
}
TEST_F(CudaDeathTest, WithoutTheCacheEveryBlockComesFromTheDriver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fresh_blocks = [] {
    const std::uint64_t before = memory_stats(kCuda).from_system;
    for (int i = 0; i < 3; ++i) Tensor::zeros({100}, DType::f32, kCuda);
    synchronize(kCuda);
    std::exit(static_cast<int>(memory_stats(kCuda).from_system - before));
  };
  setenv("LACONIC_CUDA_NO_CACHE", "1", 1);
  EXPECT_EXIT(fresh_blocks(), testing::ExitedWithCode(3), "");
  unsetenv("LACONIC_CUDA_NO_CACHE");
  EXPECT_EXIT(fresh_blocks(), testing::ExitedWithCode(1), "");
}
// Its 8 GiB are reserved, not taken.
TEST_F(CudaTest, WhatIsKeptForLaterMakesRoomWhenTheDeviceIsFull) {
  release_unused_memory(kCuda);
  const MemoryStats before = memory_stats(kCuda);
  { const Tensor kept = Tensor::empty({std::int64_t{5} << 28}, DType::f32, kCuda); }
  EXPECT_EQ(memory_stats(kCuda).reserved_bytes, before.reserved_bytes + (std::size_t{5} << 30));
  {
    const Tensor larger = Tensor::empty({std::int64_t{6} << 28}, DType::f32, kCuda);
    EXPECT_EQ(memory_stats(kCuda).reserved_bytes, before.reserved_bytes + (std::size_t{6} << 30));
    EXPECT_EQ(memory_stats(kCuda).in_use_bytes, before.in_use_bytes + (std::size_t{6} << 30));
    raw::fill(larger.range((std::int64_t{6} << 28) - 4, 4), 3);
    EXPECT_EQ(larger.range((std::int64_t{6} << 28) - 4, 4).to_vector(), std::vector<float>(4, 3.0f));
  }
  release_unused_memory(kCuda);
}
#endif

#if defined(EMULATED_CUDA_RACES)
TEST_F(CudaDeathTest, WhatNothingOrdersIsToldAsARace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using tests::Race;
  const auto run = [](Race race) {
    const Tensor y = Tensor::zeros({3}, DType::f32, kCuda);
    tests::run_race(y.data<float>(), race);
    synchronize(kCuda);
    std::exit(0);
  };
  for (const auto& [race, what] : {std::pair{Race::warp, "reads shared memory .* has written"},
                                   {Race::block, "reads shared memory .* has written"},
                                   {Race::grid, "block [01] writes global memory .* of block [01] has written"},
                                   {Race::read_first, "shared memory .* nothing orders the two"},
                                   {Race::atomic, "by an atomic .* nothing orders the two"}})
    EXPECT_DEATH(run(race), std::string("a race. .*") + what) << what;
  EXPECT_DEATH(run(Race::misaligned), "thread 0 of block 0 reaches 8 bytes that are not aligned .*launch_kernels.cu");
  EXPECT_EXIT(run(Race::none), testing::ExitedWithCode(0), "");
}
#elif defined(LACONIC_CUDA_EMULATED)
TEST_F(CudaDeathTest, AMissingBarrierShowsInAnotherOrder) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto wrong = [] {
    const Tensor y = Tensor::zeros({64}, DType::f32, kCuda);
    tests::without_barrier(y.data<float>());
    std::vector<float> right = counting(64);
    std::rotate(right.begin(), right.end() - 1, right.end());
    right[0] = 0;
    std::exit(y.to_vector() == right ? 0 : 7);
  };
  const char* const own = std::getenv("EMULATED_CUDA_ORDER");
  const std::string kept = own == nullptr ? "ascending" : own;
  for (const auto& [order, status] : {std::pair{"ascending", 0}, {"reversed", 7}, {"shuffled", 7}}) {
    setenv("EMULATED_CUDA_ORDER", order, 1);
    EXPECT_EXIT(wrong(), testing::ExitedWithCode(status), "") << order;
  }
  setenv("EMULATED_CUDA_ORDER", kept.c_str(), 1);
}
#endif

#if defined(LACONIC_CUDA_EMULATED)
TEST_F(CudaTest, NothingHappensUntilSomebodyWaits) {
  Pinned p(4, kCuda);
  std::memset(p.data(), 0, 4);
  const Tensor t = Tensor::full({1}, 1, kCuda);
  copy_bytes_later(p.data(), kCpu, t.raw_data(), kCuda, 4);
  float seen = -1;
  std::memcpy(&seen, p.data(), 4);
  EXPECT_EQ(seen, 0.0f) << "a missing wait must show";
  synchronize(kCuda);
  std::memcpy(&seen, p.data(), 4);
  EXPECT_EQ(seen, 1.0f);
}
#endif

TEST_F(CudaTest, HandlesGoWithTheStream) {
  cuda::select(0);
  const cublasHandle_t mine = cuda::cublas_handle();
  const cudnnHandle_t my_dnn = cuda::cudnn_handle();
  EXPECT_EQ(cuda::cublas_handle(), mine);
  EXPECT_EQ(cuda::cudnn_handle(), my_dnn);
  std::map<cudaStream_t, cublasHandle_t> seen{{cuda::stream(), mine}};
  for (int round = 0; round < 10; ++round)
    std::thread([&] {
      cuda::select(0);
      const cublasHandle_t theirs = cuda::cublas_handle();
      EXPECT_NE(theirs, mine);
      EXPECT_NE(cuda::cudnn_handle(), my_dnn);
      EXPECT_EQ(seen.try_emplace(cuda::stream(), theirs).first->second, theirs);
    }).join();
}

TEST(CudaLibraries, OneThatIsMissingIsNamed) {
  EXPECT_THAT(
      error_of<Error>([] { cuda::Library("cuDots", "libcudots.so.9"); }),
      testing::StartsWith("libcudots.so.9 was not found: install cuDots, or name its folder in LD_LIBRARY_PATH ("));
  const cuda::Library c("libc", "libc.so.6");
  EXPECT_NE(c.function("printf"), nullptr);
  EXPECT_EQ(error_of<Error>([&] { c.function("print_dots"); }),
            "libc: libc.so.6 has no print_dots: it is another version than this program was built for. Install that "
            "one.");
}

TEST(CudaLibraries, InstalledCublasHasWhatIsCalled) {
  expect_functions_of("libcublas", {12, 13}, LACONIC_NAMES_OF(LACONIC_CUBLAS));
}
TEST(CudaLibraries, InstalledCudnnHasWhatIsCalled) {
  expect_functions_of("libcudnn", {9}, LACONIC_NAMES_OF(LACONIC_CUDNN));
}

TEST(CudaLibraries, HaveWhatIsCalled) {
  try {
    cuda::cublas();
    cuda::cudnn();
  } catch (const Error& e) {
    EXPECT_EQ(cuda_devices(), 0) << e.what();
    EXPECT_THAT(e.what(), testing::HasSubstr("was not found"));
    NEEDS_CUDA();
  }
}

}  // namespace
}  // namespace laconic
