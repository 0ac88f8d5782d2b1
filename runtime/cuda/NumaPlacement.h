// SPDX-License-Identifier: Apache-2.0
//
// Which NUMA node a device hangs on, and putting memory there. Best effort
// throughout: memory elsewhere is slower, not wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// A bit for each node.
using NumaNodeMask = std::array<unsigned long, 16>;

/// The NUMA node of the PCI device of that address ("0000:3b:00.0", in any
/// case), if the system says; `root` is where the devices are listed.
std::optional<uint32_t>
numaNodeOf(std::string pciAddress,
           const std::string &root = "/sys/bus/pci/devices");

/// While it lives, new pages of the calling thread come from `node` as long as
/// that has any.
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

/// Makes pages in [base, base + bytes) prefer `node`, and moves those there
/// that are elsewhere and nobody else has mapped. `base` is at a page. False
/// if the system refuses.
bool moveToNumaNode(std::byte *base, size_t bytes, uint32_t node);

} // namespace fcdp
