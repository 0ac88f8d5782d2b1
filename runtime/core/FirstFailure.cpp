// SPDX-License-Identifier: Apache-2.0

#include "core/FirstFailure.h"

namespace fcdp {

bool FirstFailure::set(std::string message, FailureKind kind) {
  std::lock_guard<std::mutex> lock(mutex);
  if (flag.load(std::memory_order_relaxed))
    return false;
  text = std::move(message);
  textKind = kind;
  flag.store(true, std::memory_order_seq_cst);
  return true;
}

std::string FirstFailure::message() const {
  std::lock_guard<std::mutex> lock(mutex);
  return text;
}

FailureKind FirstFailure::kind() const {
  std::lock_guard<std::mutex> lock(mutex);
  return textKind;
}

} // namespace fcdp
