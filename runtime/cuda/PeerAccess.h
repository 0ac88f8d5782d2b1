// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/CudaLibrary.h"

#include <string>

namespace fcdp {

/// Returns a sentence for the user: the other GPUs that this process sees, by
/// their numbers, whose memory that device can access, those whose memory it
/// cannot, and whether processes can share memory by handles (cuMem). Empty if
/// the process sees no other GPU. Throws Failure.
std::string describePeers(const CudaLibrary &cuda, int device);

} // namespace fcdp
