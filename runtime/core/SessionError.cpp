// SPDX-License-Identifier: Apache-2.0
#include "core/SessionError.h"

namespace fcdp {

const char *name(SessionErrorCode code) {
  switch (code) {
  case SessionErrorCode::BadObject:
    return "bad object";
  case SessionErrorCode::BadLaunch:
    return "bad launch";
  case SessionErrorCode::BadWeights:
    return "bad weights";
  case SessionErrorCode::InputMismatch:
    return "input mismatch";
  case SessionErrorCode::NoDevice:
    return "no device";
  case SessionErrorCode::RendezvousFailed:
    return "rendezvous failed";
  case SessionErrorCode::PeerFailed:
    return "peer failed";
  case SessionErrorCode::TimedOut:
    return "timed out";
  case SessionErrorCode::OutOfMemory:
    return "out of memory";
  case SessionErrorCode::FileFailed:
    return "file failed";
  case SessionErrorCode::NotFinite:
    return "not finite";
  case SessionErrorCode::Misuse:
    return "misuse";
  case SessionErrorCode::Busy:
    return "busy";
  case SessionErrorCode::Failed:
    return "failed";
  }
  return "unknown";
}

SessionError forkedProcessError(pid_t opener) {
  return {SessionErrorCode::Misuse, "this process was forked from process " +
                                        std::to_string(opener) +
                                        ", which has opened the session and "
                                        "alone can use it"};
}

} // namespace fcdp
