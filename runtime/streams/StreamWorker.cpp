// SPDX-License-Identifier: Apache-2.0

#include "streams/StreamWorker.h"
#include "core/Thread.h"

namespace fcdp {

StreamWorker::StreamWorker(StreamId stream, uint32_t capacity,
                           CommandExecutor &executor, FirstFailure &failure)
    : stream(stream), executor(executor), failure(failure), queue(capacity) {
  thread = startThread(std::string("fcdp-") + name(stream), [this] { run(); });
}

StreamWorker::~StreamWorker() {
  stopping.store(true, std::memory_order_seq_cst);
  workArrived.notify();
  thread.join();
}

void StreamWorker::enqueue(const Command &command) {
  while (!queue.tryPush(command))
    workFinished.wait([this] { return !queue.full(); });
  ++issued;
  workArrived.notify();
}

void StreamWorker::waitFor(uint64_t sequence) {
  workFinished.wait([&] { return isDone(sequence) || failure.failed(); });
}

void StreamWorker::drain(uint64_t sequence) {
  workFinished.wait([&] { return isDone(sequence); });
}

void StreamWorker::wakeAll() { workFinished.notify(); }

void StreamWorker::execute(const Command &command) {
  if (failure.failed())
    return;
  if (command.kind == Command::Kind::Wait)
    command.wait.stream->waitFor(command.wait.sequence);
  else
    executor.execute(stream, command);
}

void StreamWorker::run() {
  uint64_t sequence = 0;
  for (;;) {
    workArrived.wait([this] {
      return !queue.empty() || stopping.load(std::memory_order_seq_cst);
    });
    Command command;
    if (!queue.tryPop(command))
      return;
    try {
      execute(command);
    } catch (const std::exception &error) {
      if (failure.set(error.what(), kindOf(error)))
        executor.interrupt();
    } catch (...) {
      if (failure.set(std::string("unknown exception on stream ") +
                      name(stream)))
        executor.interrupt();
    }
    completed.store(++sequence, std::memory_order_seq_cst);
    workFinished.notify();
  }
}

} // namespace fcdp
