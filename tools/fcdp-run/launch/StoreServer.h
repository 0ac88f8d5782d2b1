// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace fcdp::run {

/// Serves a job's store on a free port while it lives. Throws
/// std::runtime_error if it cannot. Thread-safe.
class StoreServer {
public:
  StoreServer();
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;
  StoreServer &operator=(const StoreServer &) = delete;

  uint16_t port() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace fcdp::run
