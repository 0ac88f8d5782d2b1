// SPDX-License-Identifier: Apache-2.0
//
// Which NUMA node a device hangs on, and putting memory there. Best effort
// throughout: memory elsewhere is slower, not wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// The NUMA node of the PCI device of that address ("0000:3b:00.0", in any
/// case), if the system says; `root` is where the devices are listed.
std::optional<uint32_t>
numaNodeOf(std::string pciAddress,
           const std::string &root = "/sys/bus/pci/devices");

/// While it lives, new pages of the calling thread come from `node` while that
/// has any.
class PreferNumaNode {
public:
  explicit PreferNumaNode(std::optional<uint32_t> node);
  ~PreferNumaNode();
  PreferNumaNode(const PreferNumaNode &) = delete;
  PreferNumaNode &operator=(const PreferNumaNode &) = delete;

private:
  bool changed = false;
};

/// Makes pages in [base, base + bytes) prefer `node`, and moves those there
/// that are elsewhere and nobody else has mapped. `base` is at a page. False
/// if the system refuses.
bool moveToNumaNode(std::byte *base, size_t bytes, uint32_t node);

} // namespace fcdp
