// SPDX-License-Identifier: Apache-2.0
#include "probe/TryWork.h"

#include <c10/util/Exception.h>

namespace fcdp::probe {

std::string tryWork(const std::function<void()> &work) {
  try {
    work();
    return "";
  } catch (const c10::Error &error) {
    std::string text = error.what_without_backtrace();
    text = text.substr(0, text.find('\n'));
    return text.empty() ? "libtorch gives no reason" : text;
  }
}

} // namespace fcdp::probe
