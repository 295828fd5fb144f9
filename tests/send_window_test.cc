#include <gtest/gtest.h>

#include <deque>

#include "dist/transport/transport.h"

namespace laconic::dist {
namespace {

/// Notes which sends reach the network; they end when the test says so.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(SendWindow window) { set_window(window); }
  int rank() const override { return 0; }
  int size() const override { return 4; }
  void wake() override {}
  void abort(const std::string&, int) override {}

  /// The next progress() completes the oldest send under way.
  void end_oldest() { ending_ = under_way.front(), under_way.pop_front(); }

  std::deque<Request*> under_way;
  std::vector<int> order;  // slots, as they reached the network

 private:
  void start(Request& request) override {
    if (request.kind == Request::Kind::recv) return;
    order.push_back(request.slot);
    under_way.push_back(&request);
  }
  void start_tell(int, const std::string&) override {}
  std::optional<Note> hear() override { return {}; }
  void cancel_started(Request& request) override { std::erase(under_way, &request); }
  int poll() override {
    if (ending_ == nullptr) return 0;
    std::exchange(ending_, nullptr)->complete(0);
    return 1;
  }
  void sleep(double) override {}
  Request* ending_ = nullptr;
};

constexpr std::size_t kLarge = 1 << 20, kSmall = 1 << 10;

class SendWindowTest : public ::testing::Test {
 protected:
  Request& send(CountingTransport& transport, int slot, int priority, std::size_t size = kLarge, int peer = 1) {
    Request& r = requests_.emplace_back();
    r.kind = Request::Kind::send;
    r.peer = peer, r.slot = slot, r.size = size;
    transport.post(r, priority);
    return r;
  }
  void end_all(CountingTransport& transport) {
    while (!transport.under_way.empty()) {
      transport.end_oldest();
      transport.progress();
    }
  }
  std::deque<Request> requests_;
};

TEST_F(SendWindowTest, HandsOverTheMostUrgentFirstAndEqualOnesInOrder) {
  CountingTransport transport({.messages = 2});
  send(transport, 1, 0), send(transport, 2, 0);  // take both places
  send(transport, 3, 5), send(transport, 4, 7), send(transport, 5, 7), send(transport, 6, 5), send(transport, 7, 9);
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2}));
  transport.end_oldest();
  EXPECT_EQ(transport.progress(), 1);
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2, 7}));
  end_all(transport);
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2, 7, 4, 5, 3, 6}));
}

TEST_F(SendWindowTest, CountsBytesWhenTheyAreHandedOver) {
  CountingTransport transport({.messages = 1});
  send(transport, 1, 0), send(transport, 2, 0);
  EXPECT_EQ(transport.traffic().bytes, kLarge);
  EXPECT_EQ(transport.traffic().messages, 1u);
  end_all(transport);
  EXPECT_EQ(transport.traffic().bytes, 2 * kLarge);
}

TEST_F(SendWindowTest, SmallMessagesDoNotWait) {
  CountingTransport transport({.messages = 1});
  send(transport, 1, 0), send(transport, 2, 0), send(transport, 3, 0, kSmall);
  EXPECT_EQ(transport.order, (std::vector<int>{1, 3}));
}

TEST_F(SendWindowTest, ASmallMessageNeverOvertakesALargeOneOfItsOwnSlotAndReceiver) {
  CountingTransport transport({.messages = 1});
  send(transport, 1, 0), send(transport, 2, 0), send(transport, 2, 0, kSmall);
  send(transport, 2, 0, kSmall, 3);  // another receiver
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2}));
  EXPECT_EQ(transport.under_way.back()->peer, 3);
  end_all(transport);
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2, 2, 2}));
}

TEST_F(SendWindowTest, ACancelledSendNeverReachesTheNetworkAndAStartedOneFreesItsPlace) {
  CountingTransport transport({.messages = 1});
  Request& started = send(transport, 1, 0);
  Request& queued = send(transport, 2, 0);
  send(transport, 3, 0);
  transport.cancel(queued);
  transport.cancel(started);
  transport.progress();
  EXPECT_EQ(transport.order, (std::vector<int>{1, 3}));
}

TEST_F(SendWindowTest, ASendThatNobodyTakesGivesItsPlaceAway) {
  CountingTransport transport({.messages = 2, .stall_seconds = 0});
  for (int slot = 1; slot <= 5; ++slot) send(transport, slot, 0);
  transport.progress();
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST_F(SendWindowTest, WithoutAWindowEverythingIsHandedOverAtOnce) {
  CountingTransport transport({});
  for (int slot = 1; slot <= 5; ++slot) send(transport, slot, slot);
  EXPECT_EQ(transport.order, (std::vector<int>{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace laconic::dist
