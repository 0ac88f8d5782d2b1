// SPDX-License-Identifier: Apache-2.0
#include "store/StoreServer.h"
#include "core/Thread.h"
#include "store/Secret.h"
#include "store/Sockets.h"
#include "store/StoreMessage.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <list>
#include <map>
#include <poll.h>
#include <set>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace fcdp {
namespace {

using ServerClock = std::chrono::steady_clock;

/// The most connections that may be proving themselves at the same time. One
/// more ends the oldest; its client, if it is a real one, tries again.
constexpr size_t kMostUnprovedConnections = 64;
/// The most addresses of strangers that are reported.
constexpr size_t kMostNamed = 16;
constexpr size_t kChallengeBytes = 16;

struct Connection {
  uint64_t id = 0;
  FileDescriptor socket;
  std::string address, port;
  ServerClock::time_point begin;
  std::string challenge;
  bool isProved = false, isEnding = false;
  StoreMessageReader reader;
  std::string unsent;
  /// The values to set after the connection has ended.
  std::map<std::string, std::string> wills;
};

/// A request for keys that do not all exist yet.
struct Waiter {
  uint64_t connection;
  uint32_t number;
  std::vector<std::string> keys;
  size_t found = 0; ///< the first `found` keys exist
};

} // namespace

class StoreServer::Impl {
public:
  explicit Impl(StoreServerOptions givenOptions);
  ~Impl();

  uint16_t port() const { return ownPort; }

private:
  void run();
  void pollOnce();
  void acceptAll();
  void dropLate();
  void dropOldestUnproved();
  void receive(Connection &connection);
  void handle(Connection &connection, const StoreMessage &message);
  void prove(Connection &connection, const StoreMessage &hello);
  void refuse(Connection &connection, const std::string &toClient,
              const std::string &about);
  void noteStranger(const Connection &connection, const std::string &about);
  void serve(Connection &connection, const StoreMessage &message);
  void set(const std::string &key, const std::string &value);
  void startWaiting(Waiter waiter);
  void send(Connection &connection, const StoreMessage &message);
  void flush(Connection &connection);
  void removeEnded();

  const StoreServerOptions options;
  FileDescriptor listening, wake;
  uint16_t ownPort = 0;
  // Used by the thread only.
  std::list<Connection> connections;
  uint64_t numConnections = 0;
  std::map<std::string, std::string> values;
  /// The waiting requests by their first key that does not exist.
  std::map<std::string, std::vector<Waiter>> waiters;
  /// The process at each place of the job.
  struct Member {
    std::string process, address;
  };
  std::map<std::string, Member> members;
  std::set<std::string> named;
  bool isOutOfDescriptors = false;
  std::thread thread; // last, because it uses the others
};

StoreServer::Impl::Impl(StoreServerOptions givenOptions)
    : options(std::move(givenOptions)) {
  try {
    listening = listenOn(options.address, 0);
  } catch (const std::runtime_error &error) {
    throw std::runtime_error("cannot serve the job's store on " +
                             options.address + ": " + error.what());
  }
  ownPort = portOf(listening);
  wake = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread = startThread("fcdp-store", [this] { run(); });
}

StoreServer::Impl::~Impl() {
  eventfd_write(wake.get(), 1);
  thread.join();
}

void StoreServer::Impl::run() {
  // Signals must be handled by the threads that expect them.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  eventfd_t ended;
  while (eventfd_read(wake.get(), &ended) != 0)
    pollOnce();
}

void StoreServer::Impl::pollOnce() {
  std::vector<pollfd> waited = {
      {wake.get(), POLLIN, 0},
      {listening.get(), short(isOutOfDescriptors ? 0 : POLLIN), 0}};
  bool anyUnproved = false;
  for (const Connection &connection : connections) {
    const bool writes = !connection.unsent.empty();
    waited.push_back({connection.socket.get(),
                      short(writes ? POLLIN | POLLOUT : POLLIN), 0});
    anyUnproved |= !connection.isProved;
  }
  constexpr int tick = 250; // milliseconds
  poll(waited.data(), waited.size(),
       anyUnproved || isOutOfDescriptors ? tick : -1);
  isOutOfDescriptors = false;
  size_t next = 2;
  for (Connection &connection : connections) {
    const short events = waited[next++].revents;
    if (events & POLLOUT)
      flush(connection);
    if (events & (POLLIN | POLLHUP | POLLERR))
      receive(connection);
  }
  if (waited[1].revents)
    acceptAll();
  dropLate();
  removeEnded();
}

void StoreServer::Impl::acceptAll() {
  for (;;) {
    Accepted accepted = acceptFrom(listening);
    if (accepted.isOutOfDescriptors) {
      dropOldestUnproved();
      isOutOfDescriptors = true;
    }
    if (!accepted.socket)
      return;
    Connection &made = connections.emplace_back();
    made.id = ++numConnections;
    made.socket = std::move(accepted.socket);
    made.address = accepted.address;
    made.port = std::to_string(accepted.port);
    made.begin = ServerClock::now();
    made.challenge = randomBytes(kChallengeBytes);
    const size_t unproved =
        std::count_if(connections.begin(), connections.end(),
                      [](const Connection &c) { return !c.isProved; });
    if (unproved > kMostUnprovedConnections) {
      dropOldestUnproved();
      removeEnded();
    }
    send(made, {StoreMessageKind::Greeting, 0, {kStoreName, made.challenge}});
  }
}

void StoreServer::Impl::dropOldestUnproved() {
  auto oldest = std::find_if(connections.begin(), connections.end(),
                             [](const Connection &c) { return !c.isProved; });
  if (oldest == connections.end())
    return;
  oldest->isEnding = true;
  noteStranger(*oldest, "says nothing");
}

void StoreServer::Impl::dropLate() {
  const auto now = ServerClock::now();
  for (Connection &connection : connections) {
    const std::chrono::duration<double> age = now - connection.begin;
    if (connection.isProved || age.count() < options.proofSeconds)
      continue;
    connection.isEnding = true;
    noteStranger(connection, "says nothing");
  }
}

void StoreServer::Impl::receive(Connection &connection) {
  char buffer[1 << 16];
  for (;;) {
    ssize_t got = recv(connection.socket.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (got <= 0) {
      connection.isEnding = true;
      break;
    }
    connection.reader.add(buffer, size_t(got));
    if (got < ssize_t(sizeof(buffer)))
      break;
  }
  try {
    while (auto message = connection.reader.next(
               connection.isProved ? kMostProved : kMostUnproved)) {
      if (connection.isEnding && !connection.isProved)
        return;
      handle(connection, *message);
    }
  } catch (const std::runtime_error &) {
    if (!connection.isProved)
      noteStranger(connection, "is another program");
    connection.isEnding = true;
  }
}

void StoreServer::Impl::handle(Connection &connection,
                               const StoreMessage &message) {
  if (connection.isProved)
    return serve(connection, message);
  if (message.kind != StoreMessageKind::Hello || message.fields.size() != 4)
    throw std::runtime_error("expected a proof");
  prove(connection, message);
}

void StoreServer::Impl::prove(Connection &connection,
                              const StoreMessage &hello) {
  const std::string &challenge = hello.fields[0], &member = hello.fields[1],
                    &process = hello.fields[2];
  if (!isSameProof(hello.fields[3],
                   clientProof(options.secret, connection.challenge, challenge,
                               member, process)))
    return refuse(connection,
                  "the job there has another secret; is it another job, or "
                  "does FCDP_JOB_KEY differ?",
                  "does not have the job's secret");
  auto [place, isNew] =
      members.try_emplace(member, Member{process, connection.address});
  if (!isNew && place->second.process != process)
    return refuse(connection,
                  "another process has joined the job as " + member +
                      ", from " + place->second.address,
                  "says that it is " + member +
                      ", as which another process "
                      "has joined");
  connection.isProved = true;
  send(connection,
       {StoreMessageKind::Welcome,
        0,
        {serverProof(options.secret, connection.challenge, challenge)}});
}

void StoreServer::Impl::refuse(Connection &connection,
                               const std::string &toClient,
                               const std::string &about) {
  send(connection, {StoreMessageKind::Refusal, 0, {toClient}});
  connection.isEnding = true;
  noteStranger(connection, about);
}

void StoreServer::Impl::noteStranger(const Connection &connection,
                                     const std::string &about) {
  if (!options.onStranger || named.size() == kMostNamed ||
      !named.insert(connection.address + " " + about).second)
    return;
  options.onStranger("a connection from " + connection.address + ":" +
                     connection.port + " " + about +
                     ": it was refused, and the job goes on");
}

void StoreServer::Impl::serve(Connection &connection,
                              const StoreMessage &message) {
  const std::vector<std::string> &fields = message.fields;
  auto need = [&](size_t count) {
    if (fields.size() != count)
      throw std::runtime_error("expected other fields");
  };
  StoreMessage answer{StoreMessageKind::Answer, message.number, {}};
  switch (message.kind) {
  case StoreMessageKind::Set:
    need(2);
    set(fields[0], fields[1]);
    break;
  case StoreMessageKind::Post:
    need(2);
    return set(fields[0], fields[1]);
  case StoreMessageKind::Will:
    need(2);
    if (fields[1].empty())
      connection.wills.erase(fields[0]);
    else
      connection.wills[fields[0]] = fields[1];
    return;
  case StoreMessageKind::Find:
    for (const std::string &key : fields) {
      auto found = values.find(key);
      const bool exists = found != values.end();
      answer.fields.push_back(exists ? "1" : "");
      answer.fields.push_back(exists ? found->second : "");
    }
    break;
  case StoreMessageKind::Await:
    return startWaiting({connection.id, message.number, fields, 0});
  case StoreMessageKind::Add: {
    need(2);
    auto found = values.find(fields[0]);
    const int64_t sum =
        (found == values.end() ? 0 : std::atoll(found->second.c_str())) +
        std::atoll(fields[1].c_str());
    set(fields[0], std::to_string(sum));
    answer.fields.push_back(std::to_string(sum));
    break;
  }
  case StoreMessageKind::CompareSet: {
    need(3);
    auto found = values.find(fields[0]);
    const bool exists = found != values.end();
    if (exists ? found->second == fields[1] : fields[1].empty())
      set(fields[0], fields[2]);
    found = values.find(fields[0]);
    answer.fields.push_back(found == values.end() ? fields[1] : found->second);
    break;
  }
  case StoreMessageKind::Remove:
    need(1);
    answer.fields.push_back(values.erase(fields[0]) ? "1" : "");
    break;
  default:
    throw std::runtime_error("expected a request");
  }
  send(connection, answer);
}

void StoreServer::Impl::set(const std::string &key, const std::string &value) {
  values[key] = value;
  auto found = waiters.find(key);
  if (found == waiters.end())
    return;
  std::vector<Waiter> woken = std::move(found->second);
  waiters.erase(found);
  for (Waiter &waiter : woken)
    startWaiting(std::move(waiter));
}

void StoreServer::Impl::startWaiting(Waiter waiter) {
  while (waiter.found < waiter.keys.size() &&
         values.contains(waiter.keys[waiter.found]))
    ++waiter.found;
  if (waiter.found < waiter.keys.size()) {
    waiters[waiter.keys[waiter.found]].push_back(std::move(waiter));
    return;
  }
  for (Connection &connection : connections)
    if (connection.id == waiter.connection) {
      StoreMessage answer{StoreMessageKind::Answer, waiter.number, {}};
      for (const std::string &key : waiter.keys)
        answer.fields.push_back(values[key]);
      send(connection, answer);
    }
}

void StoreServer::Impl::send(Connection &connection,
                             const StoreMessage &message) {
  connection.unsent += encode(message);
  flush(connection);
}

void StoreServer::Impl::flush(Connection &connection) {
  while (!connection.unsent.empty()) {
    ssize_t sent = ::send(connection.socket.get(), connection.unsent.data(),
                          connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        connection.isEnding = true;
      return;
    }
    connection.unsent.erase(0, size_t(sent));
  }
}

void StoreServer::Impl::removeEnded() {
  std::map<std::string, std::string> wills;
  for (Connection &connection : connections)
    if (connection.isEnding)
      wills.merge(connection.wills);
  std::erase_if(connections, [](const Connection &connection) {
    return connection.isEnding;
  });
  for (const auto &[key, value] : wills)
    set(key, value);
}

StoreServer::StoreServer(StoreServerOptions options)
    : impl(std::make_unique<Impl>(std::move(options))) {}
StoreServer::~StoreServer() = default;
uint16_t StoreServer::port() const { return impl->port(); }

} // namespace fcdp
