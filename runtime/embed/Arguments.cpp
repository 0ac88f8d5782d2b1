// SPDX-License-Identifier: Apache-2.0
#include "embed/Arguments.h"

#include "session/SessionError.h"

namespace fcdp {

Launch findLaunch() {
  try {
    if (auto launch = detectLaunch(processEnvironment, /*ignoreSlurm=*/false))
      return *launch;
  } catch (const std::exception &error) {
    throw SessionError(SessionErrorCode::BadLaunch, error.what());
  }
  return onlyRank("the program");
}

Schedule scheduleOf(const std::string &text) {
  try {
    return Schedule::parse(text, "schedule");
  } catch (const std::exception &error) {
    throw SessionError(SessionErrorCode::Misuse, error.what());
  }
}

} // namespace fcdp
