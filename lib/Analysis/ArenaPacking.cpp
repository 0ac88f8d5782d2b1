// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/ArenaPacking.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace fcdp;
using Buffer = PackingProblem::Buffer;

static bool liveTogether(const Buffer &a, const Buffer &b) {
  return a.begin < b.end && b.begin < a.end;
}

llvm::Error PackingProblem::check() const {
  if (alignment <= 0 || !llvm::isPowerOf2_64(alignment))
    return llvm::createStringError("alignment must be a power of two");
  for (const Buffer &buffer : buffers)
    if (buffer.bytes < 0 || buffer.begin >= buffer.end)
      return llvm::createStringError(
          llvm::formatv("buffer of {0} bytes lives in [{1}, {2})", buffer.bytes,
                        buffer.begin, buffer.end));
  return llvm::Error::success();
}

llvm::Error PackingSolution::verify(const PackingProblem &problem) const {
  if (offsets.size() != problem.buffers.size())
    return llvm::createStringError(
        llvm::formatv("expected {0} offsets, got {1}", problem.buffers.size(),
                      offsets.size()));
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer &a = problem.buffers[i];
    if (offsets[i] < 0 || offsets[i] % problem.alignment != 0 ||
        offsets[i] + a.bytes > peak)
      return llvm::createStringError(llvm::formatv(
          "buffer {0} is misplaced at {1} of {2}", i, offsets[i], peak));
    for (size_t j = 0; j < i; ++j) {
      const Buffer &b = problem.buffers[j];
      if (liveTogether(a, b) && offsets[i] < offsets[j] + b.bytes &&
          offsets[j] < offsets[i] + a.bytes)
        return llvm::createStringError(
            llvm::formatv("buffers {0} and {1} overlap", j, i));
    }
  }
  return llvm::Error::success();
}

PackingSolution fcdp::packArena(const PackingProblem &problem) {
  PackingSolution solution;
  solution.offsets.assign(problem.buffers.size(), 0);
  auto order = llvm::to_vector(llvm::seq<size_t>(problem.buffers.size()));
  llvm::sort(order, [&](size_t a, size_t b) {
    int64_t left = problem.buffers[a].bytes, right = problem.buffers[b].bytes;
    return left != right ? left > right : a < b;
  });

  llvm::SmallVector<size_t> placed; // by ascending offset
  for (size_t index : order) {
    const Buffer &buffer = problem.buffers[index];
    int64_t offset = 0;
    for (size_t other : placed) {
      if (!liveTogether(buffer, problem.buffers[other]))
        continue;
      if (offset + buffer.bytes <= solution.offsets[other])
        break;
      int64_t end = solution.offsets[other] + problem.buffers[other].bytes;
      offset = std::max<int64_t>(offset, llvm::alignTo(end, problem.alignment));
    }
    solution.offsets[index] = offset;
    solution.peak = std::max<int64_t>(
        solution.peak, llvm::alignTo(offset + buffer.bytes, problem.alignment));
    auto *position =
        llvm::upper_bound(placed, offset, [&](int64_t o, size_t i) {
          return o < solution.offsets[i];
        });
    placed.insert(position, index);
  }
  return solution;
}

int64_t fcdp::lowerBound(const PackingProblem &problem) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> changes;
  for (const Buffer &buffer : problem.buffers) {
    int64_t bytes = llvm::alignTo(buffer.bytes, problem.alignment);
    changes.push_back({buffer.begin, bytes});
    changes.push_back({buffer.end, -bytes});
  }
  llvm::sort(changes); // at one position, ends come before begins
  int64_t live = 0, peak = 0;
  for (auto [position, bytes] : changes)
    peak = std::max(peak, live += bytes);
  return peak;
}
