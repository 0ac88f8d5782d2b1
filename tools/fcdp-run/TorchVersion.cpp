// SPDX-License-Identifier: Apache-2.0
#include "TorchVersion.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace fcdp::run {

/// Returns "major.minor.patch" of PyTorch's version number, which has one byte
/// for each of them, the most significant first.
static std::string versionOf(uint64_t number) {
  auto part = [&](int shift) {
    return std::to_string((number >> shift) & 0xff);
  };
  return part(56) + "." + part(48) + "." + part(40);
}

void requireTorchVersion() {
  const std::string built = versionOf(TORCH_ABI_VERSION);
  const std::string found = versionOf(aoti_torch_abi_version());
  // Patch versions keep the binary interface.
  if (built.substr(0, built.rfind('.')) == found.substr(0, found.rfind('.')))
    return;
  throw std::runtime_error(
      "fcdp was built for PyTorch " + built + ", and libtorch here is " +
      found + ", with another binary interface: install torch==" + built +
      ", or build fcdp for this one");
}

} // namespace fcdp::run
