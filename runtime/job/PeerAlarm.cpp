// SPDX-License-Identifier: Apache-2.0
#include "job/PeerAlarm.h"

namespace fcdp {

void PeerAlarm::watch(Job *newJob, Backend *newBackend) {
  std::lock_guard<std::mutex> lock(mutex);
  job = newJob;
  backend = newBackend;
  if (!message.empty())
    end();
}

void PeerAlarm::ring(const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  message = text;
  end();
}

void PeerAlarm::interrupt(const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!message.empty())
    return; // the session ends already
  message = text;
  isInterrupted = true;
  end();
  if (job)
    job->publishFailure(text);
}

std::optional<std::string> PeerAlarm::interruption() {
  std::lock_guard<std::mutex> lock(mutex);
  return isInterrupted ? std::optional(message) : std::nullopt;
}

void PeerAlarm::end() {
  if (backend)
    backend->fail(message);
  if (job)
    job->abortTransfers();
}

} // namespace fcdp
