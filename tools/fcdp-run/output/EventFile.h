// SPDX-License-Identifier: Apache-2.0
//
// The files of --tensorboard.
#pragma once

#include "core/FileDescriptor.h"
#include "output/AppendedFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fcdp::run {

/// A figure of a step, by the name that TensorBoard shows.
using Scalar = std::pair<std::string, float>;

/// Writes TensorBoard's event files: records of the TFRecord format, each of
/// which is a message `tensorflow.Event`. Each event is there whole as soon as
/// it is written, so that TensorBoard can show it while the run goes on. Used
/// by one thread. The constructor and `begin` throw std::runtime_error.
///
/// The few fields that are needed are encoded here: libtorch has a copy of
/// protobuf inside, which a second one in the process could conflict with, and
/// the runtime alone is built where only libtorch is installed.
class EventFile {
public:
  /// Makes the folder if there is none, and checks that it can be written to.
  /// An empty path: nothing is written.
  explicit EventFile(const std::string &folder);

  /// Creates a file in the folder. TensorBoard drops what files of earlier
  /// parts of the job have of steps after `lastStep`.
  void begin(int64_t lastStep);
  void write(int64_t step, std::span<const Scalar> scalars);

private:
  void append(std::string_view event);
  [[noreturn]] void fail(const std::string &path,
                         const std::string &doing) const;

  std::string folder, path;
  AppendedFile file;
};

/// CRC-32C, by Castagnoli's polynomial.
uint32_t crc32c(std::string_view bytes);

} // namespace fcdp::run
