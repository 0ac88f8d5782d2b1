// SPDX-License-Identifier: Apache-2.0
//
// Writes the files of --tensorboard.
#pragma once

#include "core/FileDescriptor.h"
#include "output/AppendedFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fcdp::run {

/// A figure of a step, with its name in TensorBoard.
using Scalar = std::pair<std::string, float>;

/// Writes TensorBoard's event files: records of the TFRecord format, each of
/// which is a message `tensorflow.Event`. Each event is complete as soon as it
/// is written, so that TensorBoard can show it during the run. Used by one
/// thread. The constructor and `begin` throw std::runtime_error.
///
/// The few fields are encoded here without protobuf. libtorch contains a copy
/// of protobuf, with which a second one in the process could conflict, and the
/// runtime is also built where only libtorch is installed.
class EventFile {
public:
  /// Creates the folder if it does not exist, and checks that it can be written
  /// to. If the path is empty, nothing is written.
  explicit EventFile(const std::string &folder);

  /// Creates a file in the folder. TensorBoard then drops the events of earlier
  /// parts of the job for steps after `lastStep`.
  void begin(int64_t lastStep);
  void write(int64_t step, std::span<const Scalar> scalars);

private:
  void append(std::string_view event);
  [[noreturn]] void fail(const std::string &path,
                         const std::string &doing) const;

  std::string folder, path;
  AppendedFile file;
};

/// Returns the CRC-32C, by Castagnoli's polynomial.
uint32_t crc32c(std::string_view bytes);

} // namespace fcdp::run
