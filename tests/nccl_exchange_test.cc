// What NCCL exchanges: messages whose lengths only their senders know, alone and as an allgather.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "dist/cuda/nccl_collectives.h"
#include "tests/added_later.h"
#include "tests/error_of.h"
#include "tests/nccl_ranks.h"
#ifdef LACONIC_CUDA_EMULATED
#include <nccl.h>
#endif

namespace laconic::dist {
namespace {

using namespace std::chrono_literals;

/// What rank `from` sends rank `to` as its `i`-th message of a round: floats, of which so many bytes go.
float value_of(int from, int to, int i, int round) {
  return static_cast<float>(1000 * from + 100 * to + 10 * i + round);
}
std::size_t length_of(int from, int to, int i, int round) {
  const std::size_t lengths[] = {0, 1, 400'003, 4, static_cast<std::size_t>(10 * from + to + round)};
  return lengths[static_cast<std::size_t>(i + from + round) % std::size(lengths)];
}
constexpr std::size_t kFloats = 100'001;
constexpr int kMessages = 5;

bool begins_with(const Tensor& t, std::size_t bytes, float value) {
  const std::vector<float> got = t.to_vector(), expected(bytes / 4 + 1, value);
  return std::memcmp(got.data(), expected.data(), bytes) == 0 &&
         std::all_of(got.begin() + static_cast<std::ptrdiff_t>(bytes / 4 + 1), got.end(),
                     [](float v) { return v == 0; });
}

TEST_F(NcclTest, AnExchangeCarriesMessagesOfAnyLengthsInTheirOrderAndCountsThem) {
  for (const int N : sizes(4))
    on_ranks(N, [&](Worker& w) {
      NcclRank rank(w);
      const Device device = own_device(w);
      for (int round = 0; round < 3; ++round) {
        std::vector<Tensor> sent, came;
        std::vector<Nccl::Outgoing> out;
        std::vector<Nccl::Incoming> in;
        std::uint64_t bytes = 0;
        for (int i = 0; i < kMessages; ++i)
          for (int peer = 0; peer < N; ++peer) {
            if (peer == w.rank) continue;
            sent.push_back(added_later(std::vector<float>(kFloats, value_of(w.rank, peer, i, round)), device));
            came.push_back(Tensor::zeros({kFloats}, DType::f32, device));
            out.push_back({peer, sent.back().slice().bytes().first(length_of(w.rank, peer, i, round))});
            in.push_back({peer, came.back().slice().bytes()});
            bytes += 8 + out.back().bytes.size();
          }
        const std::uint64_t before = w.engine.counters().sent.bytes;
        rank.ask([&](Communicator&) { rank.nccl->exchange(out, in); });
        EXPECT_EQ(w.engine.counters().sent.bytes - before, bytes);
        std::size_t next = 0;
        for (int i = 0; i < kMessages; ++i)
          for (int peer = 0; peer < N; ++peer) {
            if (peer == w.rank) continue;
            ASSERT_EQ(in[next].came, length_of(peer, w.rank, i, round)) << "message " << i << " of rank " << peer;
            EXPECT_TRUE(begins_with(came[next], in[next].came, value_of(peer, w.rank, i, round)));
            ++next;
          }
      }
    });
}

TEST_F(NcclTest, AMessageThatIsLongerThanItsRoomIsSaidWhereItComes) {
  expect_error<CommError>(
      [] {
        on_ranks(2, [](Worker& w) {
          NcclRank rank(w);
          const Tensor x = Tensor::zeros({50}, DType::f32, own_device(w));
          std::vector<Nccl::Outgoing> out;
          std::vector<Nccl::Incoming> in;
          if (w.rank == 0)
            out.push_back({1, x.slice().bytes()});
          else
            in.push_back({0, x.slice().bytes().first(100)});
          rank.ask([&](Communicator&) { rank.nccl->exchange(out, in); });
          (void)x.to_vector();
        });
      },
      {"rank 1 has room for 100 bytes where rank 0 sends 200"});
}

TEST_F(NcclTest, ARankThatNeverComesEndsAnExchangeByTheTimeOut) {
  std::atomic<bool> over{false};
  std::string error;
  on_ranks(
      2,
      [&](Worker& w) {
        NcclRank rank(w);
        const Tensor x = Tensor::zeros({50}, DType::f32, own_device(w));
        if (w.rank == 1) {
          while (!over) std::this_thread::sleep_for(1ms);
          return;
        }
        const std::vector<Nccl::Outgoing> out{{1, x.slice().bytes().first(4)}};
        std::vector<Nccl::Incoming> in{{1, x.slice().bytes().sub(4, 100)}};
        error = error_of<CommError>([&] { rank.ask([&](Communicator&) { rank.nccl->exchange(out, in); }); });
        (void)x.to_vector();  // the device waits for nobody any more
        expect_error<CommError>([&] { rank.ask([&](Communicator&) { rank.nccl->allreduce(x.slice()); }); },
                                {"stopped, since a rank has failed"});
        over = true;
      },
      4);
  for (const char* part : {"rank 0 of 2 saw nothing move for 4 s", "what a test asks for waits for the length of what",
                           "comes from rank 1", "`timeout`"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST_F(NcclTest, ARankThatIsLostEndsAnExchangeAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of<Error>([] {
    on_ranks(2, [](Worker& w) {
      NcclRank rank(w);
      const Tensor x = Tensor::zeros({50}, DType::f32, own_device(w));
      std::this_thread::sleep_for(100ms * w.rank);
      require<Error>(w.rank != 1, "rank 1 has had enough.");
      std::vector<Nccl::Incoming> in{{1, x.slice().bytes()}};
      rank.ask([&](Communicator&) { rank.nccl->exchange({}, in); });
    });
  });
  EXPECT_NE(error.find("had enough"), std::string::npos) << error;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST_F(NcclTest, AnExchangeEndsAtOnceWhenItsEngineOrNcclIsStopped) {
  for (const bool engine : {false, true}) {
    const auto begin = std::chrono::steady_clock::now();
    std::atomic<bool> over{false};
    const std::string left = error_of<CommError>([&] {
      on_ranks(2, [&](Worker& w) {
        NcclRank rank(w);
        if (w.rank == 1) {
          while (!over) std::this_thread::sleep_for(1ms);
          return;
        }
        const Tensor x = Tensor::zeros({50}, DType::f32, own_device(w));
        std::vector<Nccl::Incoming> in{{1, x.slice().bytes()}};
        const Ticket ticket = rank.submit([&](Communicator&) { rank.nccl->exchange({}, in); });
        std::this_thread::sleep_for(20ms);
        engine ? w.engine.halt() : rank.nccl->stop();
        EXPECT_NE(error_of<CommError>([&] { w.engine.wait(ticket); }), "");
        over = true;
      });
    });
    EXPECT_EQ(left.empty(), !engine) << "only an engine that was halted is good for nothing";
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  }
}

TEST_F(NcclTest, AnAllgatherGivesWhatOneOfHostMemoryGives) {
  constexpr std::size_t kMost = 4000;
  for (const int N : sizes(4))
    for (const std::size_t unit : {4u, 1u})
      on_ranks(N, [&](Worker& w) {
        NcclRank rank(w);
        Gathered there(own_device(w)), here;
        for (int round = 0; round < 4; ++round) {
          const std::size_t length =
              unit * static_cast<std::size_t>((w.rank + round) % 3 == 0 ? 0 : (w.rank + 1) * (round + 7) * 23);
          const Tensor mine =
              added_later(std::vector<float>(1000, static_cast<float>(w.rank + round) + 0.5f), own_device(w));
          const std::vector<float> host = mine.to_vector();
          const Slice<const std::byte> on_host = slice(host).bytes().first(length);
          rank.ask(
              [&](Communicator&) { nccl_allgather(*rank.nccl, mine.slice().bytes().first(length), kMost, there); });
          w.engine.run("allgatherv", [&](Communicator& comm) { return allgatherv(comm, on_host, kMost, here); });
          ASSERT_EQ(there.size(), N);
          for (int r = 0; r < N; ++r) {
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there[r].data()) % 4, 0u);
            ASSERT_EQ(there[r].size(), here[r].size()) << "of rank " << r;
            std::vector<std::byte> copy(there[r].size());
            copy_bytes(copy.data(), kCpu, there[r].data(), there[r].device(), copy.size());
            EXPECT_TRUE(copy.empty() || std::memcmp(copy.data(), here[r].data(), copy.size()) == 0) << "of rank " << r;
          }
        }
      });
}

TEST_F(NcclTest, AnAllgatherRefusesAPartThatIsTooLongAndHostMemory) {
  on_ranks(2, [](Worker& w) {
    NcclRank rank(w);
    const Tensor x = Tensor::zeros({10}, DType::f32, own_device(w));
    Gathered there(own_device(w)), here;
    expect_error<UsageError>(
        [&] { rank.ask([&](Communicator&) { nccl_allgather(*rank.nccl, x.slice().bytes(), 39, there); }); },
        {"gives 40 bytes where 39 are the most"});
    expect_error<Error>(
        [&] { rank.ask([&](Communicator&) { nccl_allgather(*rank.nccl, x.slice().bytes(), 40, here); }); },
        {"is to lie on cpu"});
    expect_error<Error>(
        [&] { w.engine.run("allgatherv", [&](Communicator& comm) { return allgatherv(comm, {}, 40, there); }); },
        {"parts come to host memory"});
  });
}

#ifdef LACONIC_CUDA_EMULATED

/// Waits as NCCL wants it for what does not block.
void finish(ncclComm_t comm, ncclResult_t state) {
  while (state == ncclInProgress) ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
}

/// Two ranks of NCCL itself; f asks for work in the stream, which is waited for.
void two_ranks(const std::function<void(int rank, void* memory, ncclComm_t, cudaStream_t)>& f) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclComm_t comm = nullptr;
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      const ncclResult_t begun = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
      finish(comm, begun);
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      void* memory = nullptr;
      cudaMalloc(&memory, 100);
      f(rank, memory, comm, stream);
      cudaStreamDestroy(stream);
      cudaFree(memory);
      ncclCommDestroy(comm);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(EmulatedNccl, SendsThatComeBeforeReceivesEndTheProgramUnlessTheyAreAGroup) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto both = [](bool grouped) {
    two_ranks([&](int rank, void* memory, ncclComm_t comm, cudaStream_t stream) {
      if (grouped) ncclGroupStart();
      finish(comm, ncclSend(memory, 10, ncclUint8, 1 - rank, comm, stream));
      finish(comm, ncclRecv(static_cast<std::byte*>(memory) + 50, 10, ncclUint8, 1 - rank, comm, stream));
      if (grouped) finish(comm, ncclGroupEnd());
    });
  };
  both(true);
  EXPECT_DEATH(both(false), "streams wait for each other for ever");
}

TEST(EmulatedNccl, ASendAndAReceiveOfAnotherSizeEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with = [](std::size_t room) {
    two_ranks([room](int rank, void* memory, ncclComm_t comm, cudaStream_t stream) {
      if (rank == 0)
        finish(comm, ncclSend(memory, 10, ncclUint8, 1, comm, stream));
      else
        finish(comm, ncclRecv(memory, room, ncclUint8, 0, comm, stream));
    });
  };
  with(10);
  EXPECT_DEATH(with(11), "rank 0 sends 10 bytes where rank 1 receives 11");
}

TEST(EmulatedNccl, WhatIsNoGroupIsRefused) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  two_ranks([](int rank, void* memory, ncclComm_t comm, cudaStream_t stream) {
    EXPECT_EQ(ncclSend(memory, 1, ncclUint8, 2, comm, stream), ncclInvalidArgument);
    ncclGroupStart();
    EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, stream), ncclInvalidUsage);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    (void)rank;
  });
}

#endif

}  // namespace
}  // namespace laconic::dist
