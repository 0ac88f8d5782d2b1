// SPDX-License-Identifier: Apache-2.0
//
// Wraps the job's store in the interface that c10d's classes need. This header
// includes torch, so only runtime/transports and runtime/job may include it.
#pragma once

#include "store/StoreClient.h"

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fcdp {

/// Shares the client. Thread-safe like it.
c10::intrusive_ptr<c10d::Store>
makeGlooStore(std::shared_ptr<StoreClient> client, double seconds);

} // namespace fcdp
