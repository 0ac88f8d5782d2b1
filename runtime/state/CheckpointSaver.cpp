// SPDX-License-Identifier: Apache-2.0
#include "state/CheckpointSaver.h"

#include "checkpoint/CheckpointFolders.h"
#include "checkpoint/RankFile.h"
#include "core/SessionClock.h"
#include "core/Thread.h"
#include "store/KeyValueStore.h"

#include <ATen/ops/empty.h>
#include <algorithm>
#include <chrono>
#include <sys/resource.h>
#include <utility>

namespace fcdp {

namespace {

/// The time limit for all ranks to write. A rank that dies is found earlier.
constexpr std::chrono::hours kMostTime(1);
/// The interval at which the store is read for the progress of the others.
constexpr std::chrono::milliseconds kPoll(10);
/// The priority of the background thread, which leaves cores to the operators.
constexpr int kNiceness = 10;

constexpr const char *kBegun = "begun", *kComplete = "complete";

std::string writtenKey(uint32_t rank) {
  return "written/" + std::to_string(rank);
}

/// The background thread has nothing to report, because the session ends or
/// another rank has failed.
class Interrupted : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

uint64_t bytesOf(const std::vector<SavedPiece> &pieces) {
  uint64_t bytes = 0;
  for (const SavedPiece &piece : pieces)
    bytes += piece.bytes;
  return bytes;
}

at::Tensor allocate(uint64_t bytes, bool isPinned) {
  // The memory is written once, so that the first copy finds its pages.
  return at::empty({int64_t(bytes)},
                   at::TensorOptions(at::kByte).pinned_memory(isPinned))
      .zero_();
}

} // namespace

CheckpointSaver::CheckpointSaver(Setup given)
    : setup(std::move(given)),
      layout(setup.plan, setup.step.randomState().size()),
      memory(setup.plan.fileBytes == 0
                 ? allocate(bytesOf(layout.ofRank[setup.job.rank()]),
                            setup.plan.target == plan::Target::cuda)
                 : at::Tensor()),
      onDisk(setup.plan.fileBytes != 0
                 ? std::make_unique<DiskMemory>(
                       setup.stateFolders.at(0),
                       bytesOf(layout.ofRank[setup.job.rank()]))
                 : nullptr),
      copies(onDisk ? onDisk->bytes()
                    : std::span(
                          static_cast<std::byte *>(memory.mutable_data_ptr()),
                          memory.nbytes())),
      thread(startThread("fcdp-saver", [this] { work(); })) {}

CheckpointSaver::~CheckpointSaver() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  thread.join();
}

void CheckpointSaver::save(int64_t step, nlohmann::json job,
                           std::optional<int64_t> bestStep) {
  auto begin = SessionClock::now();
  wait();
  best = bestStep;
  copyStates();
  index = layout.index;
  index.step = step;
  index.job = std::move(job);
  for (size_t i = 0; i < index.states.size(); ++i)
    if (layout.countedBucket[i])
      index.states[i].updates =
          setup.step.updateCount(*layout.countedBucket[i]);
  ++number;
  exposedSeconds = secondsSince(begin);
  {
    std::lock_guard lock(mutex);
    isBusy = true;
  }
  changed.notify_all();
}

void CheckpointSaver::copyStates() {
  std::byte *to = copies.data();
  for (const SavedPiece &piece : layout.ofRank[setup.job.rank()]) {
    std::span<std::byte> target(to, piece.bytes);
    if (piece.region) {
      setup.step.copyRegion(*piece.region, piece.byteOffset, target);
    } else if (piece.buffer) {
      std::span<const std::byte> buffer = setup.step.buffer(*piece.buffer);
      std::copy(buffer.begin(), buffer.end(), target.begin());
    } else {
      std::vector<std::byte> random = setup.step.randomState();
      std::copy(random.begin(), random.end(), target.begin());
    }
    to += piece.bytes;
  }
}

void CheckpointSaver::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !isBusy; });
  if (error)
    throw *error;
}

uint64_t CheckpointSaver::nodeCopyBytes() const {
  if (onDisk)
    return 0;
  const Mesh &mesh = setup.plan.mesh;
  uint64_t greatest = 0;
  for (uint32_t node = 0; node < mesh.nodes; ++node) {
    uint64_t bytes = 0;
    for (uint32_t local = 0; local < mesh.locals; ++local)
      bytes += bytesOf(layout.ofRank[worldRank(mesh, {node, local})]);
    greatest = std::max(greatest, bytes);
  }
  return greatest;
}

std::optional<SavedCheckpoint> CheckpointSaver::takeSaved() {
  std::lock_guard lock(mutex);
  if (saved.empty())
    return std::nullopt;
  SavedCheckpoint oldest = std::move(saved.front());
  saved.pop_front();
  return oldest;
}

std::optional<SessionError> CheckpointSaver::failure() const {
  std::lock_guard lock(mutex);
  return error;
}

void CheckpointSaver::fail(SessionErrorCode code, const std::string &message) {
  std::lock_guard lock(mutex);
  error.emplace(code, message);
}

void CheckpointSaver::work() {
  (void)setpriority(PRIO_PROCESS, 0, kNiceness); // 0: this thread
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isBusy || isEnding; });
    if (isEnding)
      return;
    lock.unlock();
    try {
      writeCheckpoint();
    } catch (const Interrupted &interrupted) {
      fail(SessionErrorCode::PeerFailed, interrupted.what());
    } catch (const StoreError &lost) {
      std::string text = setup.job.explainFailure(lost.what());
      fail(SessionErrorCode::PeerFailed, text);
      setup.onFailure(text);
    } catch (const std::exception &error) {
      std::string text =
          std::string("the checkpoint cannot be saved: ") + error.what();
      fail(SessionErrorCode::FileFailed, text);
      try {
        setup.job.publishFailure(text);
      } catch (const StoreError &) {
        // The other ranks find that this rank has ended.
      }
      setup.onFailure(text);
    }
    lock.lock();
    isBusy = false;
    changed.notify_all();
  }
}

std::optional<std::string>
CheckpointSaver::findTold(const std::string &key) const {
  const std::string own = std::to_string(number) + " ";
  std::optional<std::string> told = setup.job.find("checkpoint/" + key);
  if (!told || !told->starts_with(own))
    return std::nullopt;
  return told->substr(own.size());
}

void CheckpointSaver::tell(const std::string &key,
                           const std::string &text) const {
  setup.job.set("checkpoint/" + key, std::to_string(number) + " " + text);
}

/// Returns the value that another process of the job has set for this save.
std::string CheckpointSaver::await(const std::string &key) const {
  std::optional<std::string> told;
  awaitRanks([&] {
    told = findTold(key);
    return told.has_value();
  });
  return *told;
}

void CheckpointSaver::awaitRanks(const std::function<bool()> &isDone) const {
  auto begin = SessionClock::now();
  while (!isDone()) {
    if (setup.backend.failed())
      throw Interrupted(setup.backend.failure());
    if (SessionClock::now() - begin > kMostTime)
      throw std::runtime_error("the other ranks took more than an hour");
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, kPoll, [&] { return isEnding; }))
      throw Interrupted("the session ended while a checkpoint was written");
  }
}

std::string CheckpointSaver::writeOwnFile(const std::string &folder) const {
  uint32_t rank = setup.job.rank();
  if (onDisk)
    onDisk->flush();
  std::string digest =
      writeRankFile(folder + "/" + layout.index.files[rank].name,
                    layout.entriesOf(rank), copies);
  if (onDisk)
    onDisk->requireRead();
  return digest;
}

std::string CheckpointSaver::prune() const {
  try {
    if (setup.options.keep)
      pruneCheckpoints(setup.options.folder, *setup.options.keep, best);
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

void CheckpointSaver::writeCheckpoint() {
  auto begin = SessionClock::now();
  Job &job = setup.job;
  const std::string &run = setup.options.folder;
  SavedCheckpoint done;
  if (job.rank() == 0) {
    beginCheckpoint(run, index.step);
    tell(kBegun);
  } else {
    (void)await(kBegun);
  }
  const std::string digest = writeOwnFile(partialPath(run, index.step));
  if (job.rank() == 0) {
    index.files[0].digest = digest;
    for (uint32_t rank = 1; rank < index.worldSize; ++rank)
      index.files[rank].digest = await(writtenKey(rank));
    commitCheckpoint(run, index);
    done.notRemoved = prune();
    tell(kComplete);
  } else {
    tell(writtenKey(job.rank()), digest);
    (void)await(kComplete);
  }
  done.path = checkpointPath(run, index.step);
  done.step = index.step;
  done.exposedSeconds = exposedSeconds;
  done.writeSeconds = secondsSince(begin);
  for (const CheckpointFile &file : index.files)
    done.bytes += file.bytes;
  std::lock_guard lock(mutex);
  // A program may never take the saved checkpoints, so their number is limited.
  constexpr size_t most = 16;
  if (saved.size() == most)
    saved.pop_front();
  saved.push_back(std::move(done));
}

} // namespace fcdp
