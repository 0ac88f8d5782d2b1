// SPDX-License-Identifier: Apache-2.0
//
// Reads entries of a zip file, with their checksums.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct zip;

namespace fcdp {

/// Used by one thread at a time; move-only. Functions throw std::runtime_error
/// that names the file.
class ZipFile {
public:
  explicit ZipFile(const std::string &path);

  const std::string &path() const { return filePath; }
  std::vector<std::string> names() const;
  /// None if there is no such entry.
  std::optional<std::vector<std::byte>> read(const std::string &name) const;
  std::optional<std::string> readText(const std::string &name) const;

private:
  struct Close {
    void operator()(zip *archive) const;
  };
  [[noreturn]] void fail(const std::string &name,
                         const std::string &message) const;

  std::string filePath;
  std::unique_ptr<zip, Close> archive;
};

} // namespace fcdp
