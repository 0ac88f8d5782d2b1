// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Device.h"
#include "fcdp/Cluster/Profile.h"

namespace fcdp {

/// Returns the matrix products (aten.mm and aten.bmm) of a profile, from which
/// products of other shapes are estimated.
std::vector<MeasuredProduct> collectProducts(const Profile &profile);

} // namespace fcdp
