// SPDX-License-Identifier: Apache-2.0
//
// Reads the entry that fcdp.export adds to an archive (extra/fcdp.json): tied
// parameters and units.
#pragma once

#include "fcdp/Support/Json.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace fcdp::pt2 {

struct Extras {
  /// Pairs of copy and root of tied parameters, in the file's order.
  std::vector<std::pair<std::string, std::string>> ties;
  /// Module paths of the units.
  llvm::StringSet<> units;

  /// Returns the unit of a parameter: the longest unit path that contains it.
  /// If there is none, the unit is the parameter's name up to its first numeric
  /// component or, without such a component, the name without its last
  /// component.
  std::string getUnit(llvm::StringRef parameter) const;
};

llvm::Expected<Extras> readExtras(llvm::StringRef text);

} // namespace fcdp::pt2
