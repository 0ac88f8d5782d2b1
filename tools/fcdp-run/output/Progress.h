// SPDX-License-Identifier: Apache-2.0
//
// Says on a terminal what a longer wait is for.
#pragma once

#include <string>

namespace fcdp::run {

/// Set for ranks that fcdp-run starts, whose own standard error is a pipe:
/// "1" if the user's is a terminal.
inline constexpr const char *kTerminalVariable = "FCDP_RUN_TERMINAL";

/// One line on standard error, overwritten by the next; nothing where standard
/// error is no terminal. Used by one thread.
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
