// SPDX-License-Identifier: Apache-2.0
//
// The links of a rank, and values that each of them has.
#pragma once

#include "EnumArray.h"

#include <cstdint>

namespace fcdp {

/// Between nodes, within a node, host to device, device to host.
enum class LinkId : uint8_t { Inter, Intra, H2D, D2H };
inline constexpr std::array kLinks = {LinkId::Inter, LinkId::Intra, LinkId::H2D,
                                      LinkId::D2H};

/// A value for each link, in the order of `kLinks`.
template <typename T>
using LinkArray = EnumArray<LinkId, T, kLinks.size()>;

inline constexpr LinkArray<const char *> kLinkNames = {
    {"inter", "intra", "h2d", "d2h"}};
/// The keys of their bytes in the lines and the trace of fcdp-run.
inline constexpr LinkArray<const char *> kLinkFigures = {
    {"inter_bytes_sent", "intra_bytes_sent", "h2d_bytes", "d2h_bytes"}};

} // namespace fcdp
