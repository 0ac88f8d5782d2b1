// SPDX-License-Identifier: Apache-2.0
//
// Lists the text arguments of ATen operators that choose what is computed.
// Other texts are messages, or names of files, of groups and of other things
// outside the step. Both the compiler and the runtime include this.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace fcdp {

inline constexpr std::string_view kChoices[] = {"UPLO",
                                                "activation",
                                                "approximate",
                                                "driver",
                                                "equation",
                                                "indexing",
                                                "interpolation",
                                                "mode",
                                                "norm",
                                                "ord",
                                                "p",
                                                "pad_mode",
                                                "padding",
                                                "padding_side",
                                                "reduce",
                                                "rounding_mode",
                                                "side"};

/// Returns whether the text argument of that name takes one of a few words.
inline bool isChoice(std::string_view argument) {
  return std::find(std::begin(kChoices), std::end(kChoices), argument) !=
         std::end(kChoices);
}

} // namespace fcdp
