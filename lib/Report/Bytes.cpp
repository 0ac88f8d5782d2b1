// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Bytes.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fcdp;

void fcdp::printBytes(uint64_t bytes, llvm::raw_ostream &stream) {
  stream << bytes << " bytes";
  constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  const char *unit = nullptr;
  for (const char *next : units) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  if (unit)
    stream << llvm::format(" (%.1f %s)", value, unit);
}

void fcdp::printTraffic(StringRef label, const LinkBytes &bytes,
                        llvm::raw_ostream &stream) {
  stream << label;
  printBytes(bytes[LinkId::Inter], stream);
  stream << " between nodes, ";
  printBytes(bytes[LinkId::Intra], stream);
  stream << " inside a node\n";
}

void fcdp::writeTraffic(llvm::json::OStream &json, llvm::StringRef name,
                        const LinkBytes &bytes) {
  json.attributeObject(name, [&] {
    for (LinkId link : kLinks)
      json.attribute(kLinkNames[link], bytes[link]);
  });
}
