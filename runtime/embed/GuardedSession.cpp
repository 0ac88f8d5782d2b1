// SPDX-License-Identifier: Apache-2.0
#include "embed/GuardedSession.h"

namespace fcdp {

GuardedSession::Turn::Turn(GuardedSession &guarded) : guarded(guarded) {
  if (guarded.process != getpid())
    throw forkedProcessError(guarded.process);
  State found = State::Free;
  if (guarded.state.compare_exchange_strong(found, State::Taken))
    return;
  if (found == State::Taken)
    throw SessionError(SessionErrorCode::Busy,
                       "another thread is in a call of this session, which "
                       "takes one call at a time");
  throw SessionError(SessionErrorCode::Misuse, "the session is closed");
}

GuardedSession::Turn::~Turn() {
  State found = State::Taken;
  if (guarded.state.compare_exchange_strong(found, State::Free))
    return;
  // The session was ended during the call.
  guarded.session.store(nullptr);
  guarded.state = State::Ended;
}

void GuardedSession::fail(const std::string &message) {
  try {
    call([&](Session &own) {
      own.guard([&] { throw SessionError(SessionErrorCode::Failed, message); });
    });
  } catch (const SessionError &error) {
    if (error.code() != SessionErrorCode::Busy)
      throw;
  }
  if (const std::shared_ptr<Session> own = session)
    own->interrupt(message);
}

void GuardedSession::end() {
  if (process != getpid())
    return;
  State found = State::Free;
  while (!state.compare_exchange_weak(found, found == State::Free ? State::Ended
                                             : found == State::Taken
                                                 ? State::Ending
                                                 : found)) {
  }
  if (found == State::Free)
    session.store(nullptr);
}

} // namespace fcdp
