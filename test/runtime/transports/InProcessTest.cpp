// SPDX-License-Identifier: Apache-2.0

#include "transports/InProcessTransport.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

namespace {

std::byte bytes[64];

std::string errorOf(Transport &transport, uint32_t peer, size_t sent,
                    size_t received) {
  Send send{peer, bytes, sent};
  Recv recv{peer, bytes + 32, received};
  try {
    transport.exchange({&send, 1}, {&recv, 1}, "gather");
  } catch (const TransportError &error) {
    return error.what();
  }
  return "";
}

} // namespace

// The group's rank 1 is world rank 7.
TEST(InProcess, ErrorsNameWorldRanks) {
  InProcessGroup group({5, 7}, 0.1);
  auto transport = group.join(0);
  EXPECT_EQ(errorOf(*transport, 1, 4, 8),
            "gather: rank 5: receiving 8 bytes from rank 7: timed out after "
            "0.100000 s");
  group.kill(1);
  EXPECT_EQ(errorOf(*transport, 1, 4, 0),
            "gather: rank 5: sending 4 bytes to rank 7: connection closed by "
            "peer");
}

TEST(InProcess, RefusesPeersThatDoNotExist) {
  InProcessGroup group({0, 1});
  auto transport = group.join(0);
  EXPECT_NE(errorOf(*transport, 2, 1, 1), "");
  EXPECT_NE(errorOf(*transport, 0, 1, 1), "");
}

TEST(InProcess, NoticesDifferentSizes) {
  InProcessGroup group({0, 1}, 5);
  auto a = group.join(0), b = group.join(1);
  std::string error;
  std::thread peer([&] {
    Send send{0, bytes, 16};
    try {
      b->exchange({&send, 1}, {}, "gather");
    } catch (const TransportError &) {
    }
  });
  Recv recv{1, bytes + 32, 8};
  try {
    a->exchange({}, {&recv, 1}, "gather");
  } catch (const TransportError &failure) {
    error = failure.what();
  }
  b->abort();
  peer.join();
  EXPECT_NE(error.find("the peer sends 16 bytes"), std::string::npos) << error;
}

TEST(InProcess, AbortEndsAnExchange) {
  InProcessGroup group({0, 1}, 60);
  auto transport = group.join(0);
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    transport->abort();
  });
  EXPECT_NE(errorOf(*transport, 1, 4, 4).find("aborted"), std::string::npos);
  aborter.join();
}

TEST(InProcess, CountsWhatItIsHanded) {
  InProcessGroup group({0, 1}, 0.05);
  auto transport = group.join(0);
  errorOf(*transport, 1, 24, 8);
  EXPECT_EQ(transport->bytesSent(), 24u);
}

// Channels are independent, whatever the order of issue between them.
TEST(InProcess, ChannelsAreApart) {
  InProcessGroup group({0, 1});
  auto a = group.join(0), b = group.join(1);
  std::byte one{1}, two{2}, gotOne{}, gotTwo{};
  std::thread sender([&] {
    std::thread second([&] {
      Send send{1, &two, 1};
      a->exchange({&send, 1}, {}, "two", 2);
    });
    Send send{1, &one, 1};
    a->exchange({&send, 1}, {}, "one", 1);
    second.join();
  });
  Recv recvOne{0, &gotOne, 1}, recvTwo{0, &gotTwo, 1};
  b->exchange({}, {&recvTwo, 1}, "two", 2);
  b->exchange({}, {&recvOne, 1}, "one", 1);
  sender.join();
  EXPECT_EQ(gotOne, one);
  EXPECT_EQ(gotTwo, two);
}
