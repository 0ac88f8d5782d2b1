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
/// in upper or lower case), if the system reports it. `root` is the folder of
/// all devices.
std::optional<uint32_t>
numaNodeOf(std::string pciAddress,
           const std::string &root = "/sys/bus/pci/devices");

/// Makes new pages in [base, base + bytes) come from `node` if it has memory.
/// `base` is page-aligned. Pages that exist stay where they are. Returns false
/// if the system refuses.
bool preferNumaNode(std::byte *base, size_t bytes, uint32_t node);

} // namespace fcdp
