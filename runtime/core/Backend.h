// SPDX-License-Identifier: Apache-2.0
//
// The interface of a device backend: streams, events, arenas, copies, sums and
// collectives. No torch header may be included here or below runtime/cpu.
#pragma once

#include "core/Failure.h"
#include "core/Links.h"
#include "core/MessageSpec.h"
#include "core/PackedLayout.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace fcdp {

/// The streams of a rank. Work on one stream runs in issue order. Gathers and
/// reductions have streams of their own, so that neither queues after the
/// other.
enum class StreamId : uint8_t {
  Compute,
  Inter,
  Intra,
  D2H,
  H2D,
  InterReduce,
  IntraReduce,
  Host ///< work of the node's processors
};
inline constexpr size_t kNumStreams = 8;
/// Returns the plan's name of the stream: "inter_reduce".
const char *name(StreamId stream);

/// A mesh axis: `Node` joins equal local ranks of all nodes (the network),
/// `Local` joins the ranks of one node. `World` is both: all ranks, in the
/// order of the shards that they own, l N + n of rank (n, l).
enum class AxisId : uint8_t { Node, Local, World };
inline constexpr size_t kNumAxes = 3;

enum class DType : uint8_t {
  F16,
  BF16,
  F32,
  F64,
  I8,
  I16,
  I32,
  I64,
  U8,
  Bool,
  C64, ///< complex, of two F32
  C128 ///< complex, of two F64
};
constexpr size_t kNumDTypes = 12;
/// Returns the bytes of one element.
size_t byteSize(DType type);
/// Returns the plan's name of the type: `f32`, `bf16`.
const char *name(DType type);

/// A gather or reduction of one bucket over one axis of P ranks.
struct Collective {
  AxisId axis;
  StreamId stream;
  const std::byte *in;
  std::byte *out;
  /// reduce-scatter only: receives P chunks, as large as `in`.
  std::byte *scratch = nullptr;
  /// Bytes of `in`. A gather writes P times as much to `out`; a reduction
  /// sends chunk r (bytes / P) to axis rank r.
  size_t bytes;
  /// The types of `in` and of `out`. A gather needs them only if it is coded.
  /// Reductions add in f32 in axis order and round once. A reduction over the
  /// world has the same bits as a reduction over local ranks, rounded to
  /// `inType`, followed by one over nodes.
  DType inType = DType::U8, outType = DType::U8;
  /// The operation of the plan, for messages: "all-gather of bucket 'blocks.0'
  /// over nodes (model.py:12)". It must outlive the backend.
  const char *what;
  MessageSpec message = {};
};

/// Bytes this rank has handed to the transport or copied since it started.
struct ByteCounters {
  LinkArray<uint64_t> links;
  uint64_t controlSent = 0;
};

/// Work of the host that a stream runs.
class HostTask {
public:
  virtual ~HostTask() = default;
  /// Throws std::exception on failure.
  virtual void run() = 0;
};

/// One rank's device. One thread, the issuer, calls all functions except for
/// those that say otherwise. Work on the compute stream runs on that thread
/// (the CPU backend) or is enqueued by it (CUDA). Functions throw
/// std::runtime_error only for misuse; failures of queued work are kept and
/// reported by `failed`.
class Backend {
public:
  virtual ~Backend() = default;

  virtual std::byte *deviceBase() = 0;
  virtual std::byte *hostBase() = 0;
  /// Extends device memory to cover bytes [from, to), as long as the result
  /// lives. `from` is at most the current end, and `to` is greater. The
  /// extension may directly follow device memory or be elsewhere. Throws
  /// std::runtime_error if the memory is not available.
  virtual std::shared_ptr<std::byte> extendDevice(uint64_t from,
                                                  uint64_t to) = 0;

  virtual void copy(StreamId stream, void *dst, const void *src,
                    size_t bytes) = 0;
  /// Runs `task` in the order of the stream. It must outlive the queued work,
  /// and may run when later ones have been issued. It may access the host's
  /// memory, and `bytes` of the device's if that is the host's, which are
  /// counted as copied. Throws std::runtime_error if the backend runs none.
  virtual void call(StreamId stream, HostTask &task, size_t bytes) {
    (void)stream, (void)task, (void)bytes;
    throw std::runtime_error("this device runs no work of the host");
  }
  /// Does the first half of `call`: `task` runs when the stream reaches this
  /// place, and the stream goes on. Returns a number for `await`.
  virtual uint32_t start(StreamId stream, HostTask &task) {
    (void)stream, (void)task;
    throw std::runtime_error("this device runs no work of the host");
  }
  /// Does the second half: makes the stream wait until that task, and all that
  /// were started before it on this stream, are done.
  virtual void await(StreamId stream, uint32_t number) {
    (void)stream, (void)number;
    throw std::runtime_error("this device runs no work of the host");
  }
  /// Unpacks a matrix in device memory to f32, bf16 or f16, on the compute
  /// stream, with the bits of core/PackedBlocks.h. Throws std::runtime_error if
  /// the device's memory is the host's, where operators do that.
  virtual void unpack(const PackedLayout &layout, const std::byte *packed,
                      DType type, std::byte *out) {
    (void)layout, (void)packed, (void)type, (void)out;
    throw std::runtime_error("this device unpacks no matrices");
  }
  /// Computes sum[i] += part[i] in device memory.
  virtual void add(StreamId stream, float *sum, const float *part,
                   size_t elements) = 0;
  virtual void allGather(const Collective &collective) = 0;
  virtual void reduceScatter(const Collective &collective) = 0;

  /// Sets `*number`, on each rank, to the sum over all ranks, added in the
  /// order of the shards that they own. `scratch` has room for one number per
  /// rank, and gets the ranks' numbers in that order. Both are in memory of the
  /// compute stream, which runs the sum. Counts as control traffic. On the CPU
  /// backend it blocks, and throws std::runtime_error if a rank is gone.
  virtual void sumOverRanks(double *number, double *scratch,
                            const char *what) = 0;

  /// Events are numbered 0..numEvents-1 and may be recorded again.
  virtual void record(uint32_t event, StreamId stream) = 0;
  /// Makes `stream` wait until the work that `event` marked is done. On the
  /// compute stream of the CPU backend this blocks the caller.
  virtual void wait(uint32_t event, StreamId stream) = 0;

  /// Blocks the caller until the work before the record of `event` is done, or
  /// any work has failed. Does not wait for work that was queued later.
  virtual void waitOnHost(uint32_t event) = 0;
  /// Blocks until all queued work is done or has failed.
  virtual void synchronize() = 0;

  /// Returns whether any queued work has failed. Cheap, and callable from any
  /// thread.
  virtual bool failed() const = 0;
  /// Makes all queued work fail with `message`, unless it has failed before,
  /// and ends waits for it. Callable from any thread.
  virtual void fail(const std::string &message) = 0;
  /// Ends failed work, so that nothing is in flight when it returns and memory
  /// can be freed without waiting for a peer. Nothing may be queued after it.
  /// Does nothing if all work is done.
  virtual void abort() noexcept {}
  /// Returns a description of the first failure: operation, bucket, own rank,
  /// peer, and the library's text.
  virtual std::string failure() const = 0;
  virtual FailureKind failureKind() const = 0;
  virtual ByteCounters counters() const = 0;
  /// Returns the seconds for which the compute stream has waited for other
  /// streams so far, or none if the host cannot see these waits, as on a GPU.
  virtual std::optional<double> secondsWaited() const { return std::nullopt; }
};

} // namespace fcdp
