// SPDX-License-Identifier: Apache-2.0

#include "cuda/NumaPlacement.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

// System calls are used directly, because the code would need nothing else of
// libnuma.

namespace fcdp {
namespace {

constexpr uint32_t wordBits = 8 * sizeof(unsigned long);
constexpr uint32_t mostNodes = NumaNodeMask().size() * wordBits;

NumaNodeMask maskOf(uint32_t node) {
  NumaNodeMask mask{};
  mask[node / wordBits] = 1ul << (node % wordBits);
  return mask;
}

} // namespace

std::optional<uint32_t> numaNodeOf(std::string pciAddress,
                                   const std::string &root) {
  std::transform(pciAddress.begin(), pciAddress.end(), pciAddress.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::ifstream file(root + "/" + pciAddress + "/numa_node");
  int64_t node;
  // The system writes -1 if there is only one node or if it does not know.
  if (!(file >> node) || node < 0 || node >= int64_t(mostNodes))
    return std::nullopt;
  return uint32_t(node);
}

bool preferNumaNode(std::byte *base, size_t bytes, uint32_t node) {
  if (bytes == 0 || node >= mostNodes)
    return bytes == 0;
  NumaNodeMask mask = maskOf(node);
  return syscall(SYS_mbind, base, bytes, MPOL_PREFERRED, mask.data(), mostNodes,
                 0) == 0;
}

} // namespace fcdp
