// SPDX-License-Identifier: Apache-2.0
//
// Names of the plan's fields and enumerators as the schema spells them.
// FlatBuffers' reflection has them as C++ does, "constantOffset" and
// "mutable_". Needs nothing but the standard library: the compiler uses it,
// too.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace fcdp::plan {

/// "constant_offset", "mutable"
inline std::string fieldName(std::string_view reflected) {
  std::string name;
  for (char c : reflected) {
    if (std::isupper(static_cast<unsigned char>(c)))
      name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (!name.empty() && name.back() == '_')
    name.pop_back();
  return name;
}

} // namespace fcdp::plan
