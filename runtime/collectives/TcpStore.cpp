// SPDX-License-Identifier: Apache-2.0

#include "collectives/TcpStore.h"
#include "collectives/Milliseconds.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace fcdp {
namespace {

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

c10::intrusive_ptr<c10d::TCPStore> open(const TcpStoreOptions &options) {
  silenceWarnings();
  c10d::TCPStoreOptions tcp;
  tcp.port = options.port;
  tcp.isServer = options.serves;
  tcp.waitWorkers = false; // the rendezvous waits and names missing ranks
  tcp.timeout = toMilliseconds(options.connectSeconds);
  std::string address = options.host + ":" + std::to_string(options.port);
  try {
    return c10::make_intrusive<c10d::TCPStore>(options.host, tcp);
  } catch (const std::exception &error) {
    std::string text = textOf(error);
    if (options.serves && text.find("EADDRINUSE") != std::string::npos)
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
      c10Error ? c10Error->what_without_backtrace() : error.what();
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

TcpStore::TcpStore(const TcpStoreOptions &options)
    : tcp(open(options)),
      store(c10::make_intrusive<c10d::PrefixStore>(options.prefix, tcp)) {
  tcp->setTimeout(toMilliseconds(options.operationSeconds));
}

void TcpStore::set(const std::string &key, const std::string &value) {
  guarded("set", [&] {
    store->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  });
}

std::string TcpStore::get(const std::string &key, double seconds) {
  return guarded("get", [&] {
    store->wait({key}, toMilliseconds(seconds));
    return toString(store->get(key));
  });
}

bool TcpStore::has(const std::string &key) {
  return guarded("check", [&] { return store->check({key}); });
}

std::vector<std::string>
TcpStore::getMany(const std::vector<std::string> &keys) {
  return guarded("get", [&] {
    std::vector<std::string> values;
    for (const std::vector<uint8_t> &value : store->multiGet(keys))
      values.push_back(toString(value));
    return values;
  });
}

uint16_t TcpStore::port() const { return tcp->getPort(); }

} // namespace fcdp
