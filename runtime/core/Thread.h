// SPDX-License-Identifier: Apache-2.0
//
// Threads and processes that a limit of the system may refuse.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>

namespace fcdp {

/// Starts a thread with a name for debuggers, of at most 15 characters. Throws
/// std::runtime_error that names the limits if the system has no more threads.
std::thread startThread(const std::string &name, std::function<void()> work);

/// Returns the text of an error: `what` could not be started, because a limit
/// on threads and processes is reached, with the values of these limits.
std::string noMoreThreads(const std::string &what);

/// Returns the text of an error. For a thread that a library could not start,
/// the text names the limits.
std::string errorText(const std::exception &error);

} // namespace fcdp
