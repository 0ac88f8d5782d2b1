// SPDX-License-Identifier: Apache-2.0

#include "cuda/ProcessorPlacement.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace fcdp {

cpu_set_t processorsNextTo(std::string pciAddress, const std::string &root) {
  std::transform(pciAddress.begin(), pciAddress.end(), pciAddress.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  cpu_set_t found, none;
  CPU_ZERO(&found);
  CPU_ZERO(&none);
  std::ifstream file(root + "/" + pciAddress + "/local_cpulist");
  // Ranges and single numbers: "0-15,32".
  for (std::string range; std::getline(file, range, ',');) {
    std::istringstream in(range);
    int first = 0, last = 0;
    char dash = 0;
    if (!(in >> first))
      return none;
    last = in >> dash >> last && dash == '-' ? last : first;
    if (first < 0 || last < first || last >= CPU_SETSIZE)
      return none;
    for (int processor = first; processor <= last; ++processor)
      CPU_SET(processor, &found);
  }
  return found;
}

uint32_t runNextTo(const cpu_set_t &processors, pid_t whole) {
  cpu_set_t usable, all, both;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0 ||
      sched_getaffinity(whole, sizeof(all), &all) != 0 ||
      !CPU_EQUAL(&usable, &all))
    return 0;
  CPU_AND(&both, &usable, &processors);
  if (CPU_COUNT(&both) == 0 || CPU_EQUAL(&both, &usable) ||
      sched_setaffinity(0, sizeof(both), &both) != 0)
    return 0;
  return uint32_t(CPU_COUNT(&both));
}

} // namespace fcdp
