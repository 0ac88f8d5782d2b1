// SPDX-License-Identifier: Apache-2.0
//
// Faults of the fake NCCL, for tests.
#pragma once

#include <cstddef>

namespace fcdp::fake {

/// No faults, nobody dead, the version of nccl.h.
void resetNccl();
/// Which version the library says it has.
void setNcclVersion(int version);
/// The rank on that device ends: its peers' communicators are told at once, and
/// collectives with it wait until they are aborted.
void killDevice(int device);
/// The rank on that device goes silent.
void hangDevice(int device);
/// Communicators that are neither destroyed nor aborted, and registrations of
/// memory that are not taken back.
size_t liveCommunicators();
size_t liveRegistrations();

} // namespace fcdp::fake
