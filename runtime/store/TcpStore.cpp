// SPDX-License-Identifier: Apache-2.0

#include "store/TcpStore.h"
#include "core/Thread.h"
#include "store/Milliseconds.h"
#include "store/Sockets.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>

namespace fcdp {
namespace {

constexpr std::chrono::milliseconds kPollTime{50};

std::string inUse() { return std::strerror(EADDRINUSE); }

std::string toString(const std::vector<uint8_t> &bytes) {
  return std::string(bytes.begin(), bytes.end());
}

/// Runs `call` and converts c10d's exceptions to StoreError.
template <typename Call>
auto guarded(const char *what, Call call) {
  try {
    return call();
  } catch (const std::exception &error) {
    throw StoreError(std::string(what) + ": " + textOf(error));
  }
}

/// Silences the warning with a stack trace that c10d prints for each error that
/// it also throws. Our error has one line. Users who want both can set the
/// variable.
void silenceWarnings() {
  if (!std::getenv("TORCH_CPP_LOG_LEVEL"))
    FLAGS_caffe2_log_level = c10::GLOG_ERROR;
}

/// Listens on one address, which TCPStore cannot.
FileDescriptor listenFor(const TcpStoreOptions &options) {
  return options.address.empty() ? FileDescriptor()
                                 : listenOn(options.address, options.port);
}

c10::intrusive_ptr<c10d::TCPStore> open(const TcpStoreOptions &options) {
  silenceWarnings();
  c10d::TCPStoreOptions tcp;
  tcp.port = options.port;
  tcp.isServer = options.serves;
  tcp.waitWorkers = false; // the rendezvous waits and names missing ranks
  tcp.timeout = toMilliseconds(options.seconds);
  std::string address = options.host + ":" + std::to_string(options.port);
  FileDescriptor listening;
  try {
    if (options.serves)
      listening = listenFor(options);
    if (listening) {
      tcp.port = portOf(listening);
      tcp.masterListenFd = listening.release(); // which the store closes
    }
    return c10::make_intrusive<c10d::TCPStore>(options.host, tcp);
  } catch (const std::exception &error) {
    std::string text = textOf(error);
    if (options.serves &&
        (text.find("EADDRINUSE") != std::string::npos || text == inUse()))
      throw std::runtime_error(
          "port " + std::to_string(options.port) +
          " is in use by another process; choose another one (MASTER_PORT), "
          "or 0 for any free one where all ranks are started by fcdp-run");
    throw std::runtime_error(
        (options.serves ? "cannot serve the job's store at " + address
                        : "cannot reach the job's store at " + address) +
        ": " + text);
  }
}

} // namespace

std::string textOf(const std::exception &error) {
  auto *c10Error = dynamic_cast<const c10::Error *>(&error);
  std::string text =
      c10Error ? c10Error->what_without_backtrace() : errorText(error);
  if (size_t trace = text.find("\nException raised from");
      trace != std::string::npos)
    text.resize(trace);
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  while (!text.empty() && (text.back() == ' ' || text.back() == '.'))
    text.pop_back();
  return text;
}

TcpStore::TcpStore(const TcpStoreOptions &options) : tcp(open(options)) {
  tcp->setTimeout(toMilliseconds(options.seconds));
}

void TcpStore::set(const std::string &key, const std::string &value) {
  guarded("set", [&] {
    tcp->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  });
}

std::optional<std::string> TcpStore::get(const std::string &key,
                                         double seconds) {
  const auto end = std::chrono::steady_clock::now() + toMilliseconds(seconds);
  while (!guarded("check", [&] { return tcp->check({key}); })) {
    if (std::chrono::steady_clock::now() >= end)
      return std::nullopt;
    std::this_thread::sleep_for(kPollTime);
  }
  return guarded("get", [&] { return toString(tcp->get(key)); });
}

std::string TcpStore::setOnce(const std::string &key,
                              const std::string &value) {
  return guarded("compare", [&] {
    return toString(
        tcp->compareSet(key, std::vector<uint8_t>(),
                        std::vector<uint8_t>(value.begin(), value.end())));
  });
}

uint16_t TcpStore::port() const { return tcp->getPort(); }

void runWithin(double seconds, const std::string &late,
               const std::function<void()> &work) {
  struct Run {
    std::function<void()> work;
    std::promise<void> done;
  };
  auto run = std::make_shared<Run>();
  run->work = work;
  std::future<void> done = run->done.get_future();
  startThread("fcdp-connect", [run] {
    try {
      run->work();
      run->done.set_value();
    } catch (...) {
      run->done.set_exception(std::current_exception());
    }
  }).detach();
  if (done.wait_for(std::chrono::duration<double>(seconds)) ==
      std::future_status::timeout)
    throw StoreError(late);
  done.get();
}

} // namespace fcdp
