// SPDX-License-Identifier: Apache-2.0
//
// Explains longer waits on a terminal.
#pragma once

#include <string>

namespace fcdp::run {

/// The variable for ranks that fcdp-run starts, whose own standard error is a
/// pipe: "1" if the user's is a terminal.
inline constexpr const char *kTerminalVariable = "FCDP_RUN_TERMINAL";

/// Prints one line on standard error, which the next one overwrites; nothing if
/// standard error is not a terminal. Used by one thread.
class Progress {
public:
  explicit Progress(bool isWanted);
  ~Progress() { clear(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void show(const std::string &text);
  void clear();

private:
  bool isOn;
  bool isShown = false;
};

} // namespace fcdp::run
