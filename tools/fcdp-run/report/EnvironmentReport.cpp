// SPDX-License-Identifier: Apache-2.0
#include "report/EnvironmentReport.h"

#include "core/Printable.h"
#include "fcdp/runtime.h"

#include <ATen/Version.h>

#include <gnu/libc-version.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

extern char **environ;

namespace fcdp::run {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::pair<std::string, std::string>>;

std::string firstLine(const fs::path &path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && !line.empty() ? line : "unknown";
}

/// Returns the value in the first line of a file that begins with `key`.
std::string field(const fs::path &path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    size_t separator = line.find_first_of(":=");
    size_t begin = line.find_first_not_of(" \t\"", separator + 1);
    if (line.starts_with(key) && begin != std::string::npos)
      return line.substr(begin, line.find('"', begin) - begin);
  }
  return "unknown";
}

/// Returns the files of a folder, in the order of their names.
std::set<fs::path> entries(const fs::path &folder) {
  std::error_code ignored;
  fs::directory_iterator found(folder, ignored);
  return {begin(found), end(found)};
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

std::string torchVersion() {
  const std::string config = at::show_config();
  constexpr std::string_view key = "TORCH_VERSION=";
  size_t begin = config.find(key);
  if (begin == std::string::npos)
    return "unknown";
  begin += key.size();
  return config.substr(begin, config.find_first_of(", \n", begin) - begin);
}

void addVersions(Lines &lines) {
  lines.emplace_back("fcdp", std::string(FCDP_VERSION) +
                                 ", objects of format " +
                                 std::to_string(FCDP_ABI_VERSION) + ", " +
                                 (FCDP_HAS_CUDA ? "with" : "without") +
                                 " CUDA, built by " + __VERSION__);
  lines.emplace_back("libtorch", torchVersion() + ", kernels for " +
                                     at::get_cpu_capability());
  utsname system{};
  uname(&system);
  lines.emplace_back("system", std::string(system.sysname) + " " +
                                   system.release + " " + system.machine +
                                   ", glibc " + gnu_get_libc_version());
  lines.emplace_back("distribution", field("/etc/os-release", "PRETTY_NAME"));
}

void addProcessors(Lines &lines) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof(usable), &usable);
  lines.emplace_back("processor",
                     field("/proc/cpuinfo", "model name") + ", " +
                         std::to_string(std::thread::hardware_concurrency()) +
                         " cores, of which this process may use " +
                         std::to_string(CPU_COUNT(&usable)));
  lines.emplace_back("limit of processors (cgroup)",
                     firstLine("/sys/fs/cgroup/cpu.max"));
}

void addMemory(Lines &lines) {
  lines.emplace_back("memory",
                     field("/proc/meminfo", "MemTotal") + ", available " +
                         field("/proc/meminfo", "MemAvailable") + ", swap " +
                         field("/proc/meminfo", "SwapTotal"));
  lines.emplace_back("limit of memory (cgroup)",
                     firstLine("/sys/fs/cgroup/memory.max"));
  struct statvfs shared{};
  lines.emplace_back("/dev/shm",
                     statvfs("/dev/shm", &shared) == 0
                         ? mebibytes(shared.f_blocks * shared.f_frsize)
                         : "unknown");
}

void addGpus(Lines &lines) {
  const fs::path driver = "/proc/driver/nvidia";
  std::set<fs::path> gpus = entries(driver / "gpus");
  if (gpus.empty()) {
    lines.emplace_back("GPUs", "none");
    return;
  }
  lines.emplace_back("driver of GPUs", firstLine(driver / "version"));
  for (const fs::path &gpu : gpus)
    lines.emplace_back("GPU", field(gpu / "information", "Model"));
}

/// Adds each link's state, without its addresses.
void addLinks(Lines &lines) {
  std::map<std::string, std::set<std::string>> families;
  ifaddrs *addresses = nullptr;
  if (getifaddrs(&addresses) == 0) {
    for (ifaddrs *entry = addresses; entry; entry = entry->ifa_next)
      if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET)
        families[entry->ifa_name].insert("IPv4");
      else if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET6)
        families[entry->ifa_name].insert("IPv6");
    freeifaddrs(addresses);
  }
  for (const fs::path &link : entries("/sys/class/net")) {
    std::string speed = firstLine(link / "speed");
    bool isKnown = std::isdigit(static_cast<unsigned char>(speed[0]));
    std::string text = firstLine(link / "operstate") + ", " +
                       (isKnown ? speed + " Mbit/s" : "unknown speed") +
                       ", MTU " + firstLine(link / "mtu");
    for (const std::string &family : families[link.filename()])
      text += ", " + family;
    lines.emplace_back("link " + link.filename().string(), text);
  }
  for (const fs::path &device : entries("/sys/class/infiniband"))
    lines.emplace_back("InfiniBand " + device.filename().string(),
                       firstLine(device / "ports/1/state") + ", " +
                           firstLine(device / "ports/1/rate"));
}

void addLimits(Lines &lines) {
  constexpr std::array<std::pair<const char *, int>, 6> kinds = {{
      {"open files", RLIMIT_NOFILE},
      {"processes", RLIMIT_NPROC},
      {"locked memory, bytes", RLIMIT_MEMLOCK},
      {"address space, bytes", RLIMIT_AS},
      {"size of a file, bytes", RLIMIT_FSIZE},
      {"stack, bytes", RLIMIT_STACK},
  }};
  auto text = [](rlim_t value) {
    return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
  };
  for (auto [name, kind] : kinds) {
    rlimit limit{};
    bool isKnown = getrlimit(__rlimit_resource_t(kind), &limit) == 0;
    lines.emplace_back(std::string("limit of ") + name,
                       isKnown ? text(limit.rlim_cur) + " (at most " +
                                     text(limit.rlim_max) + ")"
                               : "unknown");
  }
}

/// Adds the numbers that launchers set, and names of further variables, whose
/// values may be keys or addresses.
void addVariables(Lines &lines) {
  constexpr std::array shown = {
      "RANK",       "LOCAL_RANK",       "WORLD_SIZE",     "LOCAL_WORLD_SIZE",
      "GROUP_RANK", "GROUP_WORLD_SIZE", "OMP_NUM_THREADS"};
  constexpr std::array prefixes = {"FCDP_", "NCCL_",  "GLOO_",  "CUDA_",
                                   "TORCH", "MASTER", "SLURM_", "OMPI_"};
  for (const char *name : shown)
    if (const char *value = std::getenv(name))
      lines.emplace_back(name, value);
  std::set<std::string> others;
  for (char **variable = environ; *variable; ++variable) {
    std::string name(*variable, std::string_view(*variable).find('='));
    for (const char *prefix : prefixes)
      if (name.starts_with(prefix))
        others.insert(name);
  }
  std::string names;
  for (const std::string &name : others)
    names += (names.empty() ? "" : ", ") + name;
  lines.emplace_back("also set", names.empty() ? "none" : names);
}

} // namespace

std::string describeEnvironment() {
  Lines lines;
  addVersions(lines);
  addProcessors(lines);
  addMemory(lines);
  addGpus(lines);
  addLinks(lines);
  addLimits(lines);
  addVariables(lines);
  std::ostringstream text;
  for (const auto &[name, value] : lines)
    text << printable(name + ": " + value) << '\n';
  return text.str();
}

} // namespace fcdp::run
