#include "dist/transport/socket_watch.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace laconic::dist {
namespace {

/// Two ends of one TCP connection in this process.
struct Connection {
  Connection() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    near = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(near, reinterpret_cast<sockaddr*>(&address), size), 0);
    far = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Connection() {
    close(near);
    close(far);
  }
  int near = -1, far = -1;
};

TEST(SocketWatch, FindsTheConnectionsOpenedAfterItAndNoOthers) {
  const Connection before;
  SocketWatch watch;
  EXPECT_EQ(watch.look(), 0);
  const Connection after;
  EXPECT_EQ(watch.look(), 2);
  EXPECT_EQ(watch.look(), 2);
}

TEST(SocketWatch, MarksThePacketsOfWhatItWatches) {
  const auto type_of_service = [](int fd) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(fd, IPPROTO_IP, IP_TOS, &value, &size), 0);
    return value;
  };
  const Connection before;
  SocketWatch watch(0x28);
  const Connection after;
  ASSERT_EQ(watch.look(), 2);
  EXPECT_EQ(type_of_service(before.near), 0);
  EXPECT_EQ(type_of_service(after.near), 0x28);
  EXPECT_EQ(type_of_service(after.far), 0x28);
}

TEST(SocketWatch, WatchesWhatIsOpenAlreadyIfToldWhoseTheOthersAre) {
  const Connection manager, early;
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(getpeername(manager.near, reinterpret_cast<sockaddr*>(&address), &size), 0);
  SocketWatch watch({}, {{.ip = "127.0.0.1", .port = ntohs(address.sin_port)}});
  EXPECT_EQ(watch.look(), 3);  // all ends but the one that goes there
}

TEST(SocketWatch, KnowsTheProcessManagerByItsAddresses) {
  // Real ones stay out of it.
  for (const char* name : {"", "2", "21", "3", "4", "41"}) unsetenv(("PMIX_SERVER_URI" + std::string(name)).c_str());
  EXPECT_TRUE(process_manager_addresses().empty());
  setenv("PMIX_SERVER_URI2", "533463040.0;tcp4://127.0.0.1:39371", 1);
  setenv("PMIX_SERVER_URI21", "533463040.0;tcp4://127.0.0.1:39371", 1);
  setenv("PMIX_SERVER_URI3", "job.0;tcp6://[fd00::2]:55131", 1);
  for (const auto& [name, nonsense] : {std::pair{"PMIX_SERVER_URI4", "tcp4"}, {"PMIX_SERVER_URI41", "a;tcp4://b:70000"}})
    setenv(name, nonsense, 1);
  const std::vector<SocketAddress> found = process_manager_addresses();
  for (const char* name : {"2", "21", "3", "4", "41"}) unsetenv(("PMIX_SERVER_URI" + std::string(name)).c_str());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(std::find(found.begin(), found.end(), SocketAddress{"127.0.0.1", 39371}), found.end());
  EXPECT_NE(std::find(found.begin(), found.end(), SocketAddress{"fd00::2", 55131}), found.end());
}

TEST(SocketWatch, SleepsUntilSomethingComesEvenIfItCameBefore) {
  SocketWatch watch;
  const Connection connection;
  ASSERT_EQ(watch.look(), 2);
  watch.sleep(60);  // a fresh connection can be written to: that is an edge too
  watch.sleep(0);   // the other end's, if it was not taken along
  ASSERT_EQ(write(connection.near, "x", 1), 1);
  watch.sleep(60);  // returns: else the test program's time-out ends it
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(write(connection.far, "y", 1), 1);
  });
  watch.sleep(60);
  later.join();
}

TEST(SocketWatch, WakesWhenAskedTo) {
  SocketWatch watch;
  watch.wake();
  watch.sleep(60);
  std::thread later([&] { watch.wake(); });
  watch.sleep(60);
  later.join();
}

}  // namespace
}  // namespace laconic::dist
