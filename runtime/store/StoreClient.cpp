// SPDX-License-Identifier: Apache-2.0
#include "store/StoreClient.h"
#include "store/Secret.h"
#include "store/Sockets.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace fcdp {
namespace {

/// The interval in milliseconds at which a wait checks its limit and its
/// cancellation.
constexpr int kTick = 50;
constexpr std::chrono::milliseconds kRetry{200};
constexpr size_t kChallengeLength = 16;

/// An error of a connection that has ended, or could not be made. Another try
/// may succeed.
struct Disconnected : StoreError {
  using StoreError::StoreError;
};

} // namespace

/// A time limit that does not count time in which this process was stopped,
/// because it has not used the store in that time.
class StoreClient::Patience {
public:
  explicit Patience(double seconds)
      : limit(seconds), left(seconds), last(Clock::now()) {}

  const double limit; // seconds

  /// Waits for events of the socket for a tick at most. Returns false at the
  /// limit.
  bool wait(int socket, short events) {
    pollfd waited{socket, events, 0};
    poll(&waited, 1, int(std::min(double(kTick), std::max(left, 0.0) * 1000)));
    return count();
  }
  bool sleep() {
    std::this_thread::sleep_for(kRetry);
    return count();
  }

private:
  using Clock = std::chrono::steady_clock;

  bool count() {
    constexpr double most = 2; // seconds; a busy machine is not a stopped one
    const Clock::time_point now = Clock::now();
    left -= std::min(std::chrono::duration<double>(now - last).count(), most);
    last = now;
    return left > 0;
  }

  double left; // seconds
  Clock::time_point last;
};

StoreClient::StoreClient(const StoreClientOptions &givenOptions)
    : options(givenOptions) {
  Patience patience(options.connectSeconds);
  for (;;) {
    std::string problem;
    try {
      if (!tryToConnect(patience))
        failSilent(patience);
      proveItself(patience);
      return;
    } catch (const Disconnected &error) {
      problem = error.what();
    }
    reader = {};
    isBroken = false;
    if (!patience.sleep())
      fail(problem);
  }
}

void StoreClient::fail(const std::string &text) const {
  throw StoreError("the job's store at " + options.address + ":" +
                   std::to_string(options.port) + ": " + text);
}

void StoreClient::failSilent(const Patience &patience) const {
  fail("no answer for " + std::to_string(int(patience.limit)) + " s");
}

bool StoreClient::tryToConnect(Patience &patience) {
  try {
    socket = beginConnecting(options.address, options.port);
  } catch (const std::runtime_error &error) {
    throw Disconnected(error.what());
  }
  for (;;) {
    if (!patience.wait(socket.get(), POLLOUT))
      return false;
    pollfd state{socket.get(), POLLOUT, 0};
    if (poll(&state, 1, 0) <= 0)
      continue;
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0)
      throw Disconnected(std::strerror(error));
    return true;
  }
}

void StoreClient::proveItself(Patience &patience) {
  StoreMessage greeting = receive(patience);
  if (greeting.kind != StoreMessageKind::Greeting ||
      greeting.fields.size() != 2 || greeting.fields[0] != kStoreName)
    fail("another program, or another version of fcdp, answers there");
  const std::string &challenge = greeting.fields[1];
  const std::string own = randomBytes(kChallengeLength);
  send({StoreMessageKind::Hello,
        0,
        {own, options.member, options.process,
         clientProof(options.secret, challenge, own, options.member,
                     options.process)}},
       patience);
  StoreMessage answer = receive(patience);
  if (answer.kind == StoreMessageKind::Refusal && answer.fields.size() == 1)
    fail("refused: " + answer.fields[0]);
  if (answer.kind != StoreMessageKind::Welcome || answer.fields.size() != 1 ||
      !isSameProof(answer.fields[0],
                   serverProof(options.secret, challenge, own)))
    fail("it does not have the job's secret; is it another job's?");
}

void StoreClient::send(const StoreMessage &message, Patience &patience) {
  const std::string bytes = encode(message);
  for (size_t done = 0; done < bytes.size();) {
    ssize_t sent = ::send(socket.get(), bytes.data() + done,
                          bytes.size() - done, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += size_t(sent);
      continue;
    }
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      isBroken = true;
      throw Disconnected(std::string("sending failed: ") +
                         std::strerror(errno));
    }
    if (!patience.wait(socket.get(), POLLOUT)) {
      isBroken = true; // a part of a message has been sent
      failSilent(patience);
    }
  }
}

StoreMessage StoreClient::receive(Patience &patience,
                                  const std::function<bool()> &isCancelled) {
  for (;;) {
    try {
      if (auto message = reader.next(kMostProved))
        return *message;
    } catch (const std::runtime_error &) {
      isBroken = true;
      fail("another program answers there");
    }
    char buffer[1 << 16];
    ssize_t got = recv(socket.get(), buffer, sizeof(buffer), 0);
    if (got > 0) {
      reader.add(buffer, size_t(got));
      continue;
    }
    if (got == 0 ||
        (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      isBroken = true;
      throw Disconnected(got == 0 ? "the connection was closed"
                                  : std::strerror(errno));
    }
    if (isCancelled && isCancelled())
      fail("the wait was ended");
    if (!patience.wait(socket.get(), POLLIN))
      failSilent(patience);
  }
}

StoreMessage StoreClient::request(StoreMessageKind kind,
                                  std::vector<std::string> fields) {
  std::lock_guard<std::mutex> lock(mutex);
  if (isBroken)
    fail("the connection is lost");
  Patience patience(options.operationSeconds);
  const uint32_t number = ++numRequests;
  send({kind, number, std::move(fields)}, patience);
  for (;;) {
    // Answers to requests that were abandoned may come late.
    StoreMessage answer = receive(patience);
    if (answer.kind == StoreMessageKind::Answer && answer.number == number)
      return answer;
  }
}

void StoreClient::tell(StoreMessageKind kind, std::vector<std::string> fields) {
  std::lock_guard<std::mutex> lock(mutex);
  if (isBroken)
    fail("the connection is lost");
  Patience patience(options.operationSeconds);
  send({kind, 0, std::move(fields)}, patience);
}

std::vector<std::string>
StoreClient::prefixed(const std::vector<std::string> &keys) const {
  std::vector<std::string> all;
  for (const std::string &key : keys)
    all.push_back(options.prefix + key);
  return all;
}

void StoreClient::set(const std::string &key, const std::string &value) {
  request(StoreMessageKind::Set, {options.prefix + key, value});
}

void StoreClient::post(const std::string &key, const std::string &value) {
  tell(StoreMessageKind::Post, {options.prefix + key, value});
}

void StoreClient::leaveWill(const std::string &key, const std::string &value) {
  tell(StoreMessageKind::Will, {options.prefix + key, value});
}

std::vector<std::optional<std::string>>
StoreClient::find(const std::vector<std::string> &keys) {
  StoreMessage answer = request(StoreMessageKind::Find, prefixed(keys));
  if (answer.fields.size() != 2 * keys.size())
    fail("expected an answer to each key");
  std::vector<std::optional<std::string>> values(keys.size());
  for (size_t i = 0; i < keys.size(); ++i)
    if (!answer.fields[2 * i].empty())
      values[i] = std::move(answer.fields[2 * i + 1]);
  return values;
}

std::vector<std::string>
StoreClient::await(const std::vector<std::string> &keys, double seconds,
                   const std::function<bool()> &isCancelled) {
  std::lock_guard<std::mutex> lock(mutex);
  if (isBroken)
    fail("the connection is lost");
  Patience patience(seconds);
  const uint32_t number = ++numRequests;
  send({StoreMessageKind::Await, number, prefixed(keys)}, patience);
  for (;;) {
    StoreMessage answer = receive(patience, isCancelled);
    if (answer.kind != StoreMessageKind::Answer || answer.number != number)
      continue;
    if (answer.fields.size() != keys.size())
      fail("expected a value for each key");
    return answer.fields;
  }
}

int64_t StoreClient::add(const std::string &key, int64_t number) {
  StoreMessage answer = request(StoreMessageKind::Add,
                                {options.prefix + key, std::to_string(number)});
  return answer.fields.empty() ? 0 : std::atoll(answer.fields[0].c_str());
}

std::string StoreClient::compareSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &value) {
  StoreMessage answer = request(StoreMessageKind::CompareSet,
                                {options.prefix + key, expected, value});
  return answer.fields.empty() ? expected : answer.fields[0];
}

bool StoreClient::remove(const std::string &key) {
  StoreMessage answer =
      request(StoreMessageKind::Remove, {options.prefix + key});
  return !answer.fields.empty() && !answer.fields[0].empty();
}

} // namespace fcdp
