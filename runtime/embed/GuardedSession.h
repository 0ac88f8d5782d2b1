// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "session/Session.h"

#include <atomic>
#include <memory>
#include <string>
#include <unistd.h>

namespace fcdp {

/// A session that a program may call from any thread, and from a process that
/// was forked after it was opened. Only one thread at a time may be in a call,
/// and only in the process that opened it; any other call is an error instead
/// of a race. No function waits for another thread.
class GuardedSession {
public:
  explicit GuardedSession(std::unique_ptr<Session> opened)
      : session(std::shared_ptr<Session>(std::move(opened))) {}
  GuardedSession(const GuardedSession &) = delete;
  GuardedSession &operator=(const GuardedSession &) = delete;

  /// Runs work(session). Throws SessionError: Busy while another thread is in a
  /// call, and Misuse after `end` or in another process.
  template <typename Work>
  auto call(Work work) {
    Turn turn(*this);
    const std::shared_ptr<Session> own = session;
    return work(*own);
  }
  /// Returns the session, or null after `end`. Only its constant properties may
  /// be read.
  std::shared_ptr<const Session> look() const { return session.load(); }
  /// Returns whether a thread is in a call.
  bool isBusy() const {
    return state == State::Taken || state == State::Ending;
  }

  /// Reports to the other ranks that this rank cannot continue. If another
  /// thread is in a call, that call ends with `message`; otherwise throws
  /// `message` as SessionError(Failed).
  void fail(const std::string &message);
  /// Destroys the session. If a thread is in a call, the session is destroyed
  /// at the end of that call. Does nothing in another process.
  void end();

private:
  enum class State { Free, Taken, Ending, Ended };

  /// A thread's turn.
  class Turn {
  public:
    /// Throws SessionError.
    explicit Turn(GuardedSession &guarded);
    ~Turn();
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;

  private:
    GuardedSession &guarded;
  };

  const pid_t process = getpid();
  std::atomic<State> state{State::Free};
  std::atomic<std::shared_ptr<Session>> session;
};

} // namespace fcdp
