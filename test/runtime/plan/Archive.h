// SPDX-License-Identifier: Apache-2.0
//
// Small .pt2 archives.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fcdp::test {

struct ArchiveTensor {
  std::string name;
  std::string payload; ///< entry, "weight_0"
  int dtype;           ///< the archive's number: 7 is f32
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  bool isPickle = false;
};

struct Archive {
  std::vector<ArchiveTensor> weights, constants;
  /// Payload entries with their bytes.
  std::vector<std::pair<std::string, std::string>> payloads;

  void write(const std::string &path,
             const std::string &root = "archive") const;
};

/// The bytes of floats.
std::string floatBytes(const std::vector<float> &values);

} // namespace fcdp::test
