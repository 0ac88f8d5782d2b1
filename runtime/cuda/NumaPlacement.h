// SPDX-License-Identifier: Apache-2.0
//
// Finds the NUMA node of a device and places memory there. This is best effort:
// memory on another node is slower but correct.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// A bit mask of NUMA nodes.
using NumaNodeMask = std::array<unsigned long, 16>;

/// Returns the NUMA node of the PCI device with that address ("0000:3b:00.0",
/// in any case), if the system says. `root` is the folder of all devices.
std::optional<uint32_t>
numaNodeOf(std::string pciAddress,
           const std::string &root = "/sys/bus/pci/devices");

/// While it lives, new pages of the calling thread preferably come from `node`.
class PreferNumaNode {
public:
  explicit PreferNumaNode(std::optional<uint32_t> node);
  ~PreferNumaNode();
  PreferNumaNode(const PreferNumaNode &) = delete;
  PreferNumaNode &operator=(const PreferNumaNode &) = delete;

private:
  bool changed = false;
  int formerMode = 0;
  NumaNodeMask formerNodes{};
};

/// Makes pages in [base, base + bytes) prefer `node`, and moves existing pages
/// there unless other processes map them too. `base` is page-aligned. Returns
/// false if the system refuses.
bool moveToNumaNode(std::byte *base, size_t bytes, uint32_t node);

} // namespace fcdp
