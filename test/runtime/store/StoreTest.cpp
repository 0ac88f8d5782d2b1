// SPDX-License-Identifier: Apache-2.0
//
// The job's store over TCP, and strangers at its port.

#include "store/Secret.h"
#include "store/Sockets.h"
#include "store/StoreAddress.h"
#include "store/StoreClient.h"
#include "store/StoreServer.h"
#include "store/TcpStore.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>

using namespace fcdp;

namespace {

using TestClock = std::chrono::steady_clock;

/// A server, and its messages about strangers.
struct Served {
  explicit Served(double proofSeconds = 30) {
    StoreServerOptions options;
    options.secret = "the job's own secret";
    options.proofSeconds = proofSeconds;
    options.onStranger = [this](const std::string &about) {
      std::lock_guard<std::mutex> lock(mutex);
      strangers.push_back(about);
    };
    server = std::make_unique<StoreServer>(options);
  }

  StoreClientOptions optionsOf(uint32_t rank) const {
    StoreClientOptions options;
    options.address = "127.0.0.1";
    options.port = server->port();
    options.secret = "the job's own secret";
    options.member = "launcher rank " + std::to_string(rank);
    options.process = "process " + std::to_string(rank);
    options.prefix = "job/";
    options.connectSeconds = options.operationSeconds = 5;
    return options;
  }
  std::unique_ptr<StoreClient> connect(uint32_t rank) const {
    return std::make_unique<StoreClient>(optionsOf(rank));
  }
  FileDescriptor connectSilently() const {
    FileDescriptor made = beginConnecting("127.0.0.1", server->port());
    pollfd waited{made.get(), POLLOUT, 0};
    EXPECT_EQ(poll(&waited, 1, 5000), 1);
    return made;
  }
  std::vector<std::string> named() {
    std::lock_guard<std::mutex> lock(mutex);
    return strangers;
  }
  void expectNamed(const std::string &about) {
    const auto end = TestClock::now() + std::chrono::seconds(10);
    while (named().empty() && TestClock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_FALSE(named().empty());
    EXPECT_NE(named()[0].find("a connection from 127.0.0.1:"),
              std::string::npos);
    EXPECT_NE(named()[0].find(about), std::string::npos) << named()[0];
  }

  std::mutex mutex;
  std::vector<std::string> strangers;
  std::unique_ptr<StoreServer> server; // last, as its thread uses the others
};

std::string errorOf(const std::function<void()> &work) {
  try {
    work();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

} // namespace

// The test cases of RFC 2202.
TEST(Secret, IsHmac) {
  EXPECT_EQ(hmacSha1(std::string(20, '\x0b'), "Hi There"),
            "b617318655057264e28bc0b6fb378c8ef146be00");
  EXPECT_EQ(hmacSha1("Jefe", "what do ya want for nothing?"),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
  EXPECT_EQ(hmacSha1(std::string(80, '\xaa'),
                     "Test Using Larger Than Block-Size Key - Hash Key First"),
            "aa4ae5e15272d00e95705637ce8a3b55ed402112");
}

TEST(Secret, PartsAreNotJoined) {
  EXPECT_NE(proofOf("s", {"ab", "c"}), proofOf("s", {"a", "bc"}));
  EXPECT_NE(proofOf("s", {"a"}), proofOf("t", {"a"}));
  EXPECT_TRUE(isSameProof(proofOf("s", {"a"}), proofOf("s", {"a"})));
  EXPECT_FALSE(isSameProof("", proofOf("s", {"a"})));
  EXPECT_NE(randomBytes(16), randomBytes(16));
}

TEST(StoreMessage, SurvivesAnySplit) {
  StoreMessage message{StoreMessageKind::Set, 7, {"key", std::string(3, '\0')}};
  const std::string bytes = encode(message) + encode(message);
  StoreMessageReader reader;
  int found = 0;
  for (char byte : bytes) {
    reader.add(&byte, 1);
    while (auto next = reader.next(kMostProved)) {
      ++found;
      EXPECT_EQ(next->number, 7u);
      EXPECT_EQ(next->fields, message.fields);
    }
  }
  EXPECT_EQ(found, 2);
}

TEST(StoreMessage, RefusesOthers) {
  auto refuses = [](const std::string &bytes) {
    StoreMessageReader reader;
    reader.add(bytes.data(), bytes.size());
    EXPECT_THROW(reader.next(kMostUnproved), std::runtime_error);
  };
  refuses("GET / HTTP/1.1\r\n\r\n");
  refuses(std::string(4, '\0'));
  std::string longField = encode({StoreMessageKind::Set, 1, {"key"}});
  longField[9] = 4; // the field's length
  refuses(longField);
}

TEST(Store, SharesValues) {
  Served served;
  auto one = served.connect(0), other = served.connect(1);
  EXPECT_FALSE(one->has("a"));
  one->set("a", "1");
  one->post("b", std::string("\0x", 2));
  other->set("c", "");
  EXPECT_EQ(one->getMany({"a", "b", "c"}),
            (std::vector<std::string>{"1", std::string("\0x", 2), ""}));
  EXPECT_EQ(other->find({"d"})[0], std::nullopt);
  EXPECT_EQ(one->add("n", 5), 5);
  EXPECT_EQ(other->add("n", -2), 3);
  EXPECT_EQ(one->compareSet("e", "", "x"), "x");
  EXPECT_EQ(other->compareSet("e", "", "y"), "x");
  EXPECT_EQ(other->compareSet("e", "x", "y"), "y");
  EXPECT_TRUE(one->remove("e"));
  EXPECT_FALSE(one->remove("e"));
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    one->set("late", "yes");
    one->set("later", "no");
  });
  EXPECT_EQ(other->await({"a", "later", "late"}, 10, nullptr),
            (std::vector<std::string>{"1", "no", "yes"}));
  late.join();
}

TEST(Store, AWaitHasALimitAndCanBeEnded) {
  Served served;
  auto client = served.connect(0);
  EXPECT_NE(errorOf([&] { client->get("none", 0.2); }).find("no answer"),
            std::string::npos);
  int asked = 0;
  EXPECT_NE(errorOf([&] {
              client->await({"none"}, 1e9, [&] { return ++asked == 3; });
            }).find("ended"),
            std::string::npos);
  // Late answers to these are not taken for others.
  client->set("none", "now");
  EXPECT_EQ(client->get("none", 5), "now");
}

TEST(Store, AWillIsDoneHoweverTheConnectionEnds) {
  Served served;
  auto reader = served.connect(0);
  auto one = served.connect(1), other = served.connect(2);
  one->leaveWill("one", "gone");
  other->leaveWill("other", "gone");
  other->leaveWill("other", "");
  other->set("other", "done");
  one.reset();
  other.reset();
  EXPECT_EQ(reader->get("one", 5), "gone");
  EXPECT_EQ(reader->get("other", 5), "done");
}

TEST(Store, AnotherSecretIsRefusedAndNamed) {
  Served served;
  auto member = served.connect(0);
  StoreClientOptions options = served.optionsOf(1);
  options.secret = "another secret";
  std::string error = errorOf([&] { StoreClient client(options); });
  EXPECT_NE(error.find("the job there has another secret"), std::string::npos)
      << error;
  served.expectNamed("does not have the job's secret");
  member->set("a", "1");
  EXPECT_EQ(served.connect(1)->get("a", 5), "1");
}

TEST(Store, ASecondProcessOfARankIsRefusedAndNamed) {
  Served served;
  auto member = served.connect(1), second = served.connect(1);
  StoreClientOptions options = served.optionsOf(1);
  options.process = "another process";
  std::string error = errorOf([&] { StoreClient client(options); });
  EXPECT_NE(error.find("another process has joined the job as launcher rank 1"),
            std::string::npos)
      << error;
  served.expectNamed("says that it is launcher rank 1");
  member->set("a", "1");
  EXPECT_EQ(second->get("a", 5), "1");
}

// Requests of a stranger that has not proved itself do not count.
TEST(Store, RequestsWithoutAProofAreRefused) {
  Served served;
  auto member = served.connect(0);
  member->set("status/0", "a1");
  FileDescriptor stranger = served.connectSilently();
  std::string request =
      encode({StoreMessageKind::Set, 1, {"job/status/0", "f"}});
  EXPECT_EQ(send(stranger.get(), request.data(), request.size(), 0),
            ssize_t(request.size()));
  served.expectNamed("is another program");
  EXPECT_EQ(member->get("status/0", 5), "a1");
}

TEST(Store, SilentConnectionsDelayNobody) {
  Served served;
  auto member = served.connect(0);
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 200; ++i)
    silent.push_back(served.connectSilently());
  member->set("a", "1");
  EXPECT_EQ(served.connect(1)->get("a", 5), "1");
  served.expectNamed("says nothing");
  EXPECT_EQ(served.named().size(), 1u);
}

TEST(Store, AServerWithoutTheSecretIsNotBelieved) {
  Served served;
  StoreClientOptions options = served.optionsOf(0);
  FileDescriptor listening = listenOn("127.0.0.1", 0);
  options.port = portOf(listening);
  std::thread pretender([&] {
    Accepted accepted;
    while (!(accepted = acceptFrom(listening)).socket)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::string words =
        encode({StoreMessageKind::Greeting, 0, {kStoreName, "challenge"}}) +
        encode({StoreMessageKind::Welcome, 0, {std::string(40, '0')}});
    send(accepted.socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    char heard[4096];
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    (void)recv(accepted.socket.get(), heard, sizeof(heard), 0);
  });
  std::string error = errorOf([&] { StoreClient client(options); });
  pretender.join();
  EXPECT_NE(error.find("does not have the job's secret"), std::string::npos)
      << error;
}

TEST(Store, AServiceThatDoesNotAnswerIsNotWaitedForLonger) {
  FileDescriptor listening = listenOn("127.0.0.1", 0);
  Served served;
  StoreClientOptions options = served.optionsOf(0);
  options.port = portOf(listening);
  options.connectSeconds = 0.5;
  const auto begin = TestClock::now();
  std::string error = errorOf([&] { StoreClient client(options); });
  EXPECT_NE(error.find("no answer for"), std::string::npos) << error;
  EXPECT_LT(TestClock::now() - begin, std::chrono::seconds(10));
}

TEST(Store, AProcessThatDoesNotAnswerIsNotWaitedForLonger) {
  int ports[2];
  ASSERT_EQ(pipe(ports), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Served served;
    uint16_t port = served.server->port();
    (void)!write(ports[1], &port, sizeof(port));
    pause();
    _exit(0);
  }
  StoreClientOptions options = Served().optionsOf(0);
  ASSERT_EQ(read(ports[0], &options.port, sizeof(options.port)),
            ssize_t(sizeof(options.port)));
  options.operationSeconds = 0.5;
  StoreClient client(options);
  client.set("a", "1");
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED); // until all its threads are
  EXPECT_NE(errorOf([&] { client.set("a", "2"); }).find("no answer for"),
            std::string::npos);
  // Values that are sent without waiting arrive when the process goes on.
  client.post("b", "3");
  kill(child, SIGCONT);
  EXPECT_EQ(client.get("b", 10), "3");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(errorOf([&] { client.get("a", 10); }), "");
  close(ports[0]);
  close(ports[1]);
}

TEST(StoreAddress, IsBelievedWithAProofOnly) {
  TcpStoreOptions options;
  options.host = options.address = "127.0.0.1";
  options.serves = true;
  TcpStore store(options);
  store.set("fcdp/0/0/store-address", "evil 10.6.6.6 1\nno proof");
  EXPECT_NE(errorOf([&] {
              findStoreAddress(store, "fcdp/0/0", "secret", 0.2);
            }).find("another secret"),
            std::string::npos);
  const StoreAddress own{"host", "10.0.0.1", 4000};
  publishStoreAddress(store, "fcdp/0/0", "secret", own);
  StoreAddress found = findStoreAddress(store, "fcdp/0/0", "secret", 5);
  EXPECT_EQ(found.address, own.address);
  EXPECT_EQ(found.port, own.port);
  EXPECT_NE(errorOf([&] {
              publishStoreAddress(store, "fcdp/0/0", "secret",
                                  {"other", "10.0.0.2", 4000});
            }).find("has joined already (host host)"),
            std::string::npos);
  EXPECT_NE(errorOf([&] {
              findStoreAddress(store, "fcdp/0/1", "secret", 0.2);
            }).find("launcher rank 0 did not join within"),
            std::string::npos);
}
