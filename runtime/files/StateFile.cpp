// SPDX-License-Identifier: Apache-2.0
#include "files/StateFile.h"

#include "core/Thread.h"
#include "files/FileErrors.h"
#include "files/TransferRing.h"
#include "files/UnnamedFile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <thread>

namespace fcdp {

namespace {

uint64_t roundUp(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

/// Memory that transfers by the page cache take.
class AlignedStripe {
public:
  AlignedStripe()
      : memory(static_cast<std::byte *>(std::aligned_alloc(
            StateFile::kBlockBytes, StateFile::kStripeBytes))) {
    if (!memory)
      throw std::bad_alloc();
  }
  std::byte *get() const { return memory.get(); }

private:
  struct Free {
    void operator()(std::byte *bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> memory;
};

/// Returns the alignment of memory and offsets that direct transfers need, or 0
/// if there are none.
uint64_t directAlignment(const FileDescriptor &file) {
#ifdef STATX_DIOALIGN
  struct statx status = {};
  if (statx(file.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN))
    return std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
#endif
  // Kernels before 6.1 do not say. No file system needs more than a block.
  return StateFile::kBlockBytes;
}

} // namespace

/// A part of a range that is in one folder, at most a stripe.
struct StateFile::Range {
  uint64_t offset;
  std::byte *memory;
  uint64_t bytes;
  bool isWrite;
};

/// The file in one folder, with a thread for its transfers. Functions may be
/// called from any thread.
class StateFile::Folder {
public:
  Folder(const std::string &path, uint64_t bytes, bool mayUseRings);
  ~Folder();

  bool isDirect() const { return alignment != 0; }
  bool usesRings() const { return hasRings; }

  /// The transfers of a call in this folder.
  struct Task {
    std::vector<Range> parts;
    std::exception_ptr error;
    bool isDone = false;
  };
  /// Runs the task on the folder's thread, until `await`.
  void start(Task &task);
  void await(Task &task);
  /// Runs the parts on the calling thread.
  void run(const std::vector<Range> &parts) const;

private:
  /// A ring, and memory for the parts in flight that are not aligned.
  struct Ring {
    std::unique_ptr<TransferRing> transfers;
    std::vector<AlignedStripe> stripes = {};
  };

  void work();
  void transfer(const Range &part, const AlignedStripe &stripe) const;
  void transferAll(const Range &part, std::byte *memory, uint64_t bytes) const;
  /// Transfers several parts at a time. A thread has the ring for itself.
  void runTogether(Ring &ring, std::span<const Range> parts) const;
  std::unique_ptr<Ring> takeRing() const;
  bool isAligned(const Range &part) const {
    return !alignment || (part.bytes % kBlockBytes == 0 &&
                          uintptr_t(part.memory) % alignment == 0);
  }
  /// Copies a part to an aligned stripe to be written.
  static void fill(const AlignedStripe &stripe, const Range &part) {
    uint64_t whole = roundUp(part.bytes, kBlockBytes);
    std::memcpy(stripe.get(), part.memory, part.bytes);
    std::memset(stripe.get() + part.bytes, 0, whole - part.bytes);
  }
  /// Returns the bytes of a transfer of `bytes` that are done, by the result of
  /// a call, which is the bytes that it has moved or a negative error number.
  uint64_t countDone(bool isWrite, uint64_t bytes, int64_t result) const;

  const std::string path;
  FileDescriptor file;
  uint64_t alignment = 0;
  bool hasRings = false;
  mutable std::mutex ringMutex;
  /// The rings that no thread uses. Guarded by their mutex.
  mutable std::vector<std::unique_ptr<Ring>> rings;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task *> tasks;
  bool isEnding = false;
  std::thread thread;
};

StateFile::Folder::Folder(const std::string &path, uint64_t bytes,
                          bool mayUseRings)
    : path(path), file(openUnnamed(path, O_DIRECT)) {
  if (file)
    alignment = directAlignment(file);
  if (!file && errno == EINVAL)
    file = openUnnamed(path, 0);
  if (!file)
    throwErrno(path, "used for states");
  refuseMemory(file, path);
  if (alignment > kBlockBytes)
    throwAt(path, "expected blocks of at most " + std::to_string(kBlockBytes) +
                      " bytes, got " + std::to_string(alignment));
  if (bytes > 0)
    allocateSpace(file, path, bytes, "states of the optimizer");
  // Without direct transfers the page cache reads ahead and writes later.
  hasRings = mayUseRings && isDirect() && TransferRing::make() != nullptr;
}

StateFile::Folder::~Folder() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  thread.join();
}

void StateFile::Folder::start(Task &task) {
  std::lock_guard lock(mutex);
  if (!thread.joinable())
    thread = startThread("fcdp-states", [this] { work(); });
  tasks.push_back(&task);
  changed.notify_all();
}

void StateFile::Folder::await(Task &task) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return task.isDone; });
}

void StateFile::Folder::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isEnding || !tasks.empty(); });
    if (tasks.empty())
      return;
    Task *task = tasks.front();
    tasks.pop_front();
    lock.unlock();
    try {
      run(task->parts);
    } catch (...) {
      task->error = std::current_exception();
    }
    lock.lock();
    task->isDone = true;
    changed.notify_all();
  }
}

void StateFile::Folder::run(const std::vector<Range> &parts) const {
  if (parts.size() > 1)
    if (std::unique_ptr<Ring> ring = takeRing()) {
      for (size_t begin = 0; begin < parts.size();
           begin += TransferRing::kDepth)
        runTogether(*ring, std::span(parts).subspan(
                               begin, std::min<size_t>(TransferRing::kDepth,
                                                       parts.size() - begin)));
      std::lock_guard lock(ringMutex);
      rings.push_back(std::move(ring));
      return;
    }
  AlignedStripe stripe;
  for (const Range &part : parts)
    transfer(part, stripe);
}

std::unique_ptr<StateFile::Folder::Ring> StateFile::Folder::takeRing() const {
  if (!hasRings)
    return nullptr;
  {
    std::lock_guard lock(ringMutex);
    if (!rings.empty()) {
      std::unique_ptr<Ring> ring = std::move(rings.back());
      rings.pop_back();
      return ring;
    }
  }
  std::unique_ptr<TransferRing> made = TransferRing::make();
  return made ? std::make_unique<Ring>(std::move(made)) : nullptr;
}

void StateFile::Folder::runTogether(Ring &ring,
                                    std::span<const Range> parts) const {
  std::vector<TransferRing::Transfer> transfers;
  std::vector<const AlignedStripe *> stripeOf;
  if (!std::ranges::all_of(parts,
                           [&](const Range &one) { return isAligned(one); }))
    while (ring.stripes.size() < parts.size())
      ring.stripes.emplace_back();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Range &part = parts[i];
    stripeOf.push_back(isAligned(part) ? nullptr : &ring.stripes[i]);
    if (stripeOf[i] && part.isWrite)
      fill(*stripeOf[i], part);
    transfers.push_back(
        {part.offset, stripeOf[i] ? stripeOf[i]->get() : part.memory,
         stripeOf[i] ? roundUp(part.bytes, kBlockBytes) : part.bytes,
         part.isWrite});
  }
  ring.transfers->run(file.get(), transfers,
                      [&](const TransferRing::Transfer &one, int64_t result) {
                        return countDone(one.isWrite, one.bytes, result);
                      });
  for (size_t i = 0; i < parts.size(); ++i)
    if (stripeOf[i] && !parts[i].isWrite)
      std::memcpy(parts[i].memory, stripeOf[i]->get(), parts[i].bytes);
}

void StateFile::Folder::transfer(const Range &part,
                                 const AlignedStripe &stripe) const {
  if (isAligned(part))
    return transferAll(part, part.memory, part.bytes);
  if (part.isWrite)
    fill(stripe, part);
  transferAll(part, stripe.get(), roundUp(part.bytes, kBlockBytes));
  if (!part.isWrite)
    std::memcpy(part.memory, stripe.get(), part.bytes);
}

void StateFile::Folder::transferAll(const Range &part, std::byte *memory,
                                    uint64_t bytes) const {
  for (uint64_t done = 0; done < bytes;) {
    auto offset = off_t(part.offset + done);
    ssize_t moved =
        part.isWrite ? pwrite(file.get(), memory + done, bytes - done, offset)
                     : pread(file.get(), memory + done, bytes - done, offset);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    done += countDone(part.isWrite, bytes - done, moved < 0 ? -errno : moved);
  }
}

uint64_t StateFile::Folder::countDone(bool isWrite, uint64_t bytes,
                                      int64_t result) const {
  if (result < 0) {
    errno = int(-result);
    throwErrno(path, isWrite ? "written with states of the optimizer"
                             : "read for states of the optimizer");
  }
  if (result == 0)
    throwAt(path, "expected " + std::to_string(bytes) +
                      " more bytes of states, got the end of the file");
  if (!alignment)
    return uint64_t(result);
  if (uint64_t(result) < kBlockBytes)
    throwAt(path, "expected a block of " + std::to_string(kBlockBytes) +
                      " bytes, got " + std::to_string(result));
  // A short transfer of a direct file may end within a block.
  return uint64_t(result) / kBlockBytes * kBlockBytes;
}

/// Returns the bytes of a folder's file: whole stripes in turn.
static uint64_t countBytes(uint64_t bytes, size_t folders) {
  uint64_t stripes =
      roundUp(bytes, StateFile::kStripeBytes) / StateFile::kStripeBytes;
  return (stripes + folders - 1) / folders * StateFile::kStripeBytes;
}

StateFile::StateFile(const std::vector<std::string> &paths, uint64_t bytes,
                     bool mayUseRings)
    : size(roundUp(bytes, kBlockBytes)) {
  for (const std::string &path : paths)
    folders.push_back(std::make_unique<Folder>(
        path, countBytes(bytes, paths.size()), mayUseRings));
}

StateFile::~StateFile() = default;

bool StateFile::isDirect() const {
  return std::ranges::all_of(
      folders, [](const auto &folder) { return folder->isDirect(); });
}

bool StateFile::usesRings() const {
  return std::ranges::all_of(
      folders, [](const auto &folder) { return folder->usesRings(); });
}

void StateFile::read(uint64_t offset, std::span<std::byte> to) {
  transfer({offset, to.data(), to.size(), /*isWrite=*/false});
}

void StateFile::write(uint64_t offset, std::span<const std::byte> from) {
  transfer({offset, const_cast<std::byte *>(from.data()), from.size(),
            /*isWrite=*/true});
}

void StateFile::readBytes(uint64_t offset, std::span<std::byte> to) {
  std::array<std::byte, kBlockBytes> block;
  if (uint64_t head = offset % kBlockBytes; head != 0 && !to.empty()) {
    read(offset - head, block);
    size_t count = std::min<size_t>(kBlockBytes - head, to.size());
    std::memcpy(to.data(), block.data() + head, count);
    to = to.subspan(count);
    offset += count;
  }
  if (!to.empty())
    read(offset, to);
}

void StateFile::writeBytes(uint64_t offset, std::span<const std::byte> from) {
  std::array<std::byte, kBlockBytes> block;
  // A part of a block is written with the rest of it.
  while (!from.empty()) {
    uint64_t head = offset % kBlockBytes;
    size_t count = from.size() / kBlockBytes * kBlockBytes;
    if (head == 0 && count != 0) {
      write(offset, from.first(count));
    } else {
      count = std::min<size_t>(kBlockBytes - head, from.size());
      read(offset - head, block);
      std::memcpy(block.data() + head, from.data(), count);
      write(offset - head, block);
    }
    from = from.subspan(count);
    offset += count;
  }
}

void StateFile::transfer(const Range &range) {
  if (range.offset % kBlockBytes || range.offset + range.bytes > size)
    throw std::runtime_error("expected states at a multiple of " +
                             std::to_string(kBlockBytes) + " bytes, within " +
                             std::to_string(size));
  std::vector<Folder::Task> tasks(folders.size());
  for (uint64_t done = 0; done < range.bytes;) {
    uint64_t at = range.offset + done, stripe = at / kStripeBytes;
    uint64_t bytes =
        std::min(range.bytes - done, kStripeBytes - at % kStripeBytes);
    tasks[stripe % folders.size()].parts.push_back(
        {stripe / folders.size() * kStripeBytes + at % kStripeBytes,
         range.memory + done, bytes, range.isWrite});
    done += bytes;
  }
  for (size_t i = 1; i < folders.size(); ++i)
    folders[i]->start(tasks[i]);
  try {
    folders[0]->run(tasks[0].parts);
  } catch (...) {
    tasks[0].error = std::current_exception();
  }
  // The tasks are in use until their folders have done them.
  for (size_t i = 1; i < folders.size(); ++i)
    folders[i]->await(tasks[i]);
  for (const Folder::Task &task : tasks)
    if (task.error)
      std::rethrow_exception(task.error);
}

} // namespace fcdp
