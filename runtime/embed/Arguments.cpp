// SPDX-License-Identifier: Apache-2.0
#include "embed/Arguments.h"

#include "core/SessionError.h"

#include <sstream>

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

namespace {

template <typename Setting>
Setting parseSetting(const std::string &text, const char *option) {
  try {
    return Setting::parse(text, option);
  } catch (const std::exception &error) {
    throw SessionError(SessionErrorCode::Misuse, error.what());
  }
}

} // namespace

Schedule scheduleOf(const std::string &text) {
  return parseSetting<Schedule>(text, "schedule");
}

LossScaling lossScalingOf(const std::string &text) {
  return parseSetting<LossScaling>(text, "loss_scale");
}

std::vector<std::string> stateFoldersOf(const std::string &text) {
  std::vector<std::string> folders;
  std::istringstream parts(text);
  for (std::string folder; std::getline(parts, folder, ',');)
    folders.push_back(folder);
  return folders;
}

} // namespace fcdp
