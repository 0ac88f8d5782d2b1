// SPDX-License-Identifier: Apache-2.0
#include "output/WholeFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

namespace fcdp::run {

void checkDirectory(const std::string &option, const std::string &path) {
  std::filesystem::path directory = std::filesystem::absolute(path);
  if (!directory.has_filename()) // behind a slash
    directory = directory.parent_path();
  if (!std::filesystem::is_directory(directory))
    directory = directory.parent_path();
  if (access(directory.c_str(), W_OK) != 0)
    throw std::runtime_error(option + " " + path + ": cannot write to " +
                             directory.string() + ": " + std::strerror(errno));
}

void writeWhole(const std::string &option, const std::string &path,
                const std::string &text) {
  std::string temporary = temporaryName(path);
  std::ofstream file(temporary, std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0)
    return;
  int error = errno;
  std::remove(temporary.c_str());
  throw std::runtime_error(option + " " + path +
                           ": cannot be written: " + std::strerror(error));
}

} // namespace fcdp::run
