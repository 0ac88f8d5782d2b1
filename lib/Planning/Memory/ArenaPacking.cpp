// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/ArenaPacking.h"

#include "core/Packing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <tuple>

using namespace fcdp;
using Buffer = PackingProblem::Buffer;

llvm::Error PackingProblem::check() const {
  if (alignment <= 0 || !llvm::isPowerOf2_64(alignment))
    return llvm::createStringError("alignment must be a power of two");
  for (const Buffer &buffer : buffers) {
    if (buffer.bytes < 0 || buffer.begin >= buffer.end)
      return llvm::createStringError(
          llvm::formatv("buffer of {0} bytes lives in [{1}, {2})", buffer.bytes,
                        buffer.begin, buffer.end));
    if (buffer.offset >= 0 && buffer.offset % alignment != 0)
      return llvm::createStringError(
          llvm::formatv("buffer of {0} bytes has to be at {1}, which is no "
                        "multiple of {2}",
                        buffer.bytes, buffer.offset, alignment));
  }
  return llvm::Error::success();
}

/// Fails if two buffers overlap in time and place. It goes through time with
/// the live buffers sorted by offset, where comparing neighbours is enough.
static llvm::Error verifyApart(const PackingProblem &problem,
                               llvm::ArrayRef<int64_t> offsets) {
  struct Change {
    int64_t moment;
    bool begins;
    size_t index;
    bool operator<(const Change &other) const {
      return std::tie(moment, begins, index) <
             std::tie(other.moment, other.begins, other.index);
    }
  };
  llvm::SmallVector<Change> changes;
  for (auto [i, buffer] : llvm::enumerate(problem.buffers)) {
    if (buffer.bytes == 0)
      continue;
    changes.push_back({buffer.begin, true, i});
    changes.push_back({buffer.end, false, i});
  }
  llvm::sort(changes); // at one moment, ends come before begins
  std::map<int64_t, size_t> live;
  auto overlap = [&](size_t a, size_t b) {
    return llvm::createStringError(llvm::formatv(
        "buffers {0} and {1} overlap", std::min(a, b), std::max(a, b)));
  };
  for (auto [moment, begins, i] : changes) {
    if (!begins) {
      live.erase(offsets[i]);
      continue;
    }
    auto next = live.lower_bound(offsets[i]);
    if (next != live.end() &&
        next->first < offsets[i] + problem.buffers[i].bytes)
      return overlap(i, next->second);
    if (next != live.begin())
      if (auto [offset, other] = *std::prev(next);
          offset + problem.buffers[other].bytes > offsets[i])
        return overlap(i, other);
    live.emplace_hint(next, offsets[i], i);
  }
  return llvm::Error::success();
}

llvm::Error PackingSolution::verify(const PackingProblem &problem) const {
  if (offsets.size() != problem.buffers.size())
    return llvm::createStringError(
        llvm::formatv("expected {0} offsets, got {1}", problem.buffers.size(),
                      offsets.size()));
  for (auto [i, buffer] : llvm::enumerate(problem.buffers))
    if (offsets[i] < 0 || offsets[i] % problem.alignment != 0 ||
        offsets[i] + buffer.bytes > peak ||
        (buffer.offset >= 0 && offsets[i] != buffer.offset))
      return llvm::createStringError(llvm::formatv(
          "buffer {0} is misplaced at {1} of {2}", i, offsets[i], peak));
  return verifyApart(problem, offsets);
}

static std::vector<packing::Buffer> convert(const PackingProblem &problem) {
  std::vector<packing::Buffer> buffers;
  for (const Buffer &buffer : problem.buffers)
    buffers.push_back({buffer.bytes, buffer.begin, buffer.end, buffer.offset});
  return buffers;
}

static PackingSolution pack(const PackingProblem &problem,
                            packing::Effort effort) {
  packing::Packing packed =
      packing::pack(convert(problem), problem.alignment, effort);
  return {llvm::to_vector(packed.offsets), packed.peak, packed.attempts};
}

PackingSolution fcdp::packArena(const PackingProblem &problem) {
  return pack(problem, packing::Effort::Full);
}

PackingSolution fcdp::packArenaQuickly(const PackingProblem &problem) {
  return pack(problem, packing::Effort::Orders);
}

int64_t fcdp::lowerBound(const PackingProblem &problem) {
  return packing::lowerBound(convert(problem), problem.alignment);
}
