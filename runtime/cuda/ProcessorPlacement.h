// SPDX-License-Identifier: Apache-2.0
//
// Runs a rank's threads on the processors next to its device. This is best
// effort: other processors launch kernels more slowly, and correctly.
#pragma once

#include <cstdint>
#include <sched.h>
#include <string>

namespace fcdp {

/// Returns the processors next to the PCI device with that address
/// ("0000:3b:00.0", in upper or lower case). It is empty if the system does not
/// say. `root` is the folder of all devices.
cpu_set_t processorsNextTo(std::string pciAddress,
                           const std::string &root = "/sys/bus/pci/devices");

/// Has the calling thread, and threads that it starts later, run on those of
/// these processors that it may use. A thread that may use less than process
/// `whole`, the first of the system or container by default, was bound by its
/// launcher and stays as it is. Returns the number of processors that it was
/// bound to, or 0 if nothing changed.
uint32_t runNextTo(const cpu_set_t &processors, pid_t whole = 1);

} // namespace fcdp
