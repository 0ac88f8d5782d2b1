// SPDX-License-Identifier: Apache-2.0
#include "launch/StoreServer.h"

#include "collectives/TcpStore.h"

namespace fcdp::run {

namespace {

TcpStoreOptions serverOptions() {
  TcpStoreOptions options;
  options.host = "127.0.0.1";
  options.port = 0;
  options.serves = true;
  return options;
}

} // namespace

struct StoreServer::Impl {
  TcpStore store{serverOptions()};
};

StoreServer::StoreServer() : impl(std::make_unique<Impl>()) {}
StoreServer::~StoreServer() = default;
uint16_t StoreServer::port() const { return impl->store.port(); }

} // namespace fcdp::run
