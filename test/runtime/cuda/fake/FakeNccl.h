// SPDX-License-Identifier: Apache-2.0
//
// Faults of the fake NCCL, for tests.
#pragma once

#include <cstddef>

namespace fcdp::fake {

/// Removes all faults, and restores the version of nccl.h.
void resetNccl();
/// Sets the version that the library reports.
void setNcclVersion(int version);
/// Makes all communicators answer a registration with an error: that the memory
/// is not for it, or that the system has failed.
/// With `LocalWindows`, the handle of a window is that of a buffer, as from
/// NCCL 2.28.0 to 2.28.9 without windows.
enum class RegistrationFault {
  None,
  NoWindows,
  LocalWindows,
  Refused,
  SystemError
};
void failRegistrations(RegistrationFault fault);
/// Has calls of collectives on that device wait until their communicator is
/// aborted, as if what NCCL keeps of calls were full.
void fillCalls(int device);
/// Ends the rank on that device. Its peers' communicators report an error at
/// once, and collectives with it wait until they are aborted.
void killDevice(int device);
/// Makes the rank on that device silent.
void hangDevice(int device);
/// Return the number of communicators that are neither destroyed nor aborted,
/// of memory registrations that are not undone, and of windows among them.
size_t liveCommunicators();
size_t liveRegistrations();
size_t liveWindows();

} // namespace fcdp::fake
