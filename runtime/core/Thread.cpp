// SPDX-License-Identifier: Apache-2.0
#include "core/Thread.h"

#include <fstream>
#include <pthread.h>
#include <stdexcept>
#include <sys/resource.h>
#include <system_error>

namespace fcdp {

static std::string userLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) != 0)
    return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                         : std::to_string(limit.rlim_cur);
}

/// Returns the value of the nearest control group that limits tasks.
static std::string groupLimit() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" in version 2, "7:pids:/path" in version 1.
    const size_t names = line.find(':'), path = line.find(':', names + 1);
    if (names == line.npos || path == line.npos)
      continue;
    const std::string controllers = line.substr(names + 1, path - names - 1);
    if (!controllers.empty() && controllers != "pids")
      continue;
    const std::string root =
        controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    for (std::string group = line.substr(path + 1);;) {
      std::string most;
      if (std::ifstream(root + group + "/pids.max") >> most && most != "max")
        return most;
      const size_t parent = group.rfind('/');
      if (parent == group.npos)
        break;
      group.resize(parent);
    }
  }
  return "unlimited";
}

std::string noMoreThreads(const std::string &what) {
  return "cannot start " + what +
         ": a limit on threads and processes is reached, that of the user (" +
         "ulimit -u: " + userLimit() +
         ") or of the control group (pids.max: " + groupLimit() +
         "); raise it, or start fewer ranks or threads here";
}

static bool isThreadRefused(const std::exception &error) {
  auto *known = dynamic_cast<const std::system_error *>(&error);
  return known && known->code() == std::errc::resource_unavailable_try_again;
}

std::string errorText(const std::exception &error) {
  return isThreadRefused(error) ? noMoreThreads("a thread") : error.what();
}

std::thread startThread(const std::string &name, std::function<void()> work) {
  std::thread thread;
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error &error) {
    if (!isThreadRefused(error))
      throw;
    throw std::runtime_error(noMoreThreads("thread '" + name + "'"));
  }
  // The system limits it to 15 characters.
  pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

} // namespace fcdp
