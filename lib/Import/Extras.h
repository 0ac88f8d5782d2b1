// SPDX-License-Identifier: Apache-2.0
//
// What fcdp.export adds to an archive (extra/fcdp.json): ties and units.
#pragma once

#include "fcdp/Support/Json.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace fcdp::pt2 {

struct Extras {
  /// Copy and root of tied parameters, in the file's order.
  std::vector<std::pair<std::string, std::string>> ties;
  /// Module paths.
  llvm::StringSet<> units;

  /// The unit of a parameter: the longest one that holds it, or, where none
  /// does, its name up to the first component that is a number, or else its
  /// name without the last component.
  std::string getUnit(llvm::StringRef parameter) const;
};

llvm::Expected<Extras> readExtras(llvm::StringRef text);

} // namespace fcdp::pt2
