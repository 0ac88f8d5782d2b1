// SPDX-License-Identifier: Apache-2.0
//
// A libcudart on the machine of Machine.h. It has the functions that the
// backend calls, with their real effects, and counts every call.

#include "Machine.h"
#include "cuda/QuantizeBlocks.h"
#include "cuda/SumChunks.h"
#include "cuda/UnpackBlocks.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <optional>
#include <set>
#include <thread>
#include <utility>

using namespace fcdp::fake;
using namespace fcdp::cuda;

/// A command, and how long it takes.
struct TimedCommand {
  Command run;
  double seconds;
};

struct CUstream_st {
  std::shared_ptr<Stream> stream;
  /// Commands since the begin of a capture.
  std::optional<std::vector<TimedCommand>> captured = {};
};
struct CUgraph_st {
  std::vector<TimedCommand> commands;
};
struct CUgraphExec_st {
  std::vector<TimedCommand> commands;
};
struct CUevent_st {
  bool isTimed = false;
  Point point;
  /// The time in seconds at which it was reached in stream order, if it is
  /// timed. Commands that write it share it, because they may outlive the
  /// event.
  std::shared_ptr<double> reached = {};
};
/// A kernel of the image.
struct CUkern_st {
  /// Copies the arguments and returns the command to run in the stream.
  std::function<Command(void **arguments)> prepare;
  /// Returns the bytes that it accesses.
  std::function<double(void **arguments)> countBytes;
};

namespace {

using Lock = std::unique_lock<std::recursive_mutex>;

/// Limit after which a host that waits for a stream counts as hung.
constexpr std::chrono::seconds longestWait(60);

thread_local int currentDevice = 0;
/// The next result of cudaGetLastError. CUDA keeps every result of a call that
/// is not cudaSuccess there, including cudaErrorNotReady.
thread_local cudaError_t lastError = cudaSuccess;
/// Sticky, like an illegal access on a device.
cudaError_t stickyError = cudaSuccess;

Machine &machine() { return Machine::instance(); }

Lock enter(const char *entryPoint) {
  Lock lock(machine().mutex);
  machine().count(entryPoint);
  return lock;
}

/// Returns `error`, or the sticky error if there is one, as the result of a
/// call.
cudaError_t result(cudaError_t error = cudaSuccess) {
  if (stickyError != cudaSuccess)
    error = stickyError;
  if (error != cudaSuccess)
    lastError = error;
  return error;
}

cudaError_t illegalAccess(const std::string &what) {
  machine().fail(what);
  return stickyError = cudaErrorIllegalAddress;
}

double readSteadyClock() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename T>
T *at(const void *address, uint64_t elements, const char *what) {
  auto *bytes = machine().translate(address, elements * sizeof(T));
  if (!bytes && elements)
    illegalAccess(std::string(what) + ": " + std::to_string(elements) +
                  " elements that are not all in memory of the device");
  return reinterpret_cast<T *>(bytes);
}

/// The threads that share a kernel's work, one after another.
constexpr uint64_t kFakeThreads = 3;

template <typename In, typename Out>
Command prepareSum(void **arguments) {
  auto chunks = *static_cast<SumChunksArguments *>(arguments[0]);
  return [chunks]() mutable {
    using InType = typename In::Storage;
    using OutType = typename Out::Storage;
    uint32_t ranks = chunks.nodes * chunks.locals;
    chunks.own = at<InType>(chunks.own, chunks.elements, "the own chunk");
    chunks.out = at<OutType>(chunks.out, chunks.elements, "the sum");
    // The scratch may have no room for this rank's own chunk.
    if (ranks > 1 && chunks.elements)
      chunks.scratch =
          at<InType>(chunks.scratch,
                     chunks.elements * (ranks - (chunks.rank == ranks - 1)),
                     "the others' chunks");
    if (stickyError == cudaSuccess)
      for (uint64_t thread = 0; thread < kFakeThreads; ++thread)
        sumChunks<In, Out>(chunks, thread, kFakeThreads);
    return true;
  };
}

template <typename In, typename Out>
double countSumBytes(void **arguments) {
  auto &chunks = *static_cast<SumChunksArguments *>(arguments[0]);
  return double(chunks.elements) *
         (double(chunks.nodes) * chunks.locals * sizeof(typename In::Storage) +
          sizeof(typename Out::Storage));
}

/// Translates parts or messages of `bytes` for each rank but `rank`, which may
/// have no room at the end.
template <typename T>
T *atParts(T *parts, uint64_t bytes, uint32_t rank, uint32_t ranks,
           const char *what) {
  return at<T>(parts, bytes / sizeof(T) * (ranks - (rank + 1 == ranks)), what);
}

template <typename In, typename Block>
Command prepareQuantize(void **arguments) {
  auto parts = *static_cast<QuantizeArguments *>(arguments[0]);
  return [parts]() mutable {
    using Value = const typename In::Storage;
    const uint64_t own = parts.elements;
    parts.values =
        atParts(static_cast<Value *>(parts.values), own * sizeof(Value),
                parts.rank, parts.ranks, "the values");
    parts.residual = atParts(parts.residual, own * sizeof(float), parts.rank,
                             parts.ranks, "the residual");
    parts.messages = atParts(parts.messages, parts.messageBytes, parts.rank,
                             parts.ranks, "the messages");
    if (stickyError == cudaSuccess)
      for (uint64_t warp = 0; warp < kFakeThreads; ++warp)
        quantizeParts<In, Block>(parts, warp, kFakeThreads);
    return true;
  };
}

template <typename In, typename Block>
double countQuantizeBytes(void **arguments) {
  auto &parts = *static_cast<QuantizeArguments *>(arguments[0]);
  return (parts.ranks - 1.0) *
         (double(parts.elements) *
              (sizeof(typename In::Storage) + 2 * sizeof(float)) +
          double(parts.messageBytes));
}

template <typename In, typename Out, typename Block>
Command prepareSumMessages(void **arguments) {
  auto sum = *static_cast<SumMessagesArguments *>(arguments[0]);
  return [sum]() mutable {
    sum.own =
        at<const typename In::Storage>(sum.own, sum.elements, "the own part");
    sum.out = at<typename Out::Storage>(sum.out, sum.elements, "the sum");
    sum.messages = atParts(sum.messages, sum.messageBytes, sum.rank, sum.ranks,
                           "the others' messages");
    if (stickyError == cudaSuccess)
      for (uint64_t warp = 0; warp < kFakeThreads; ++warp)
        sumMessages<In, Out, Block>(sum, warp, kFakeThreads);
    return true;
  };
}

template <typename In, typename Out, typename Block>
double countSumMessagesBytes(void **arguments) {
  auto &sum = *static_cast<SumMessagesArguments *>(arguments[0]);
  return (sum.ranks - 1.0) * double(sum.messageBytes) +
         double(sum.elements) *
             (sizeof(typename In::Storage) + sizeof(typename Out::Storage));
}

template <typename Codes, typename Out>
Command prepareUnpack(void **arguments) {
  auto matrix = *static_cast<UnpackArguments *>(arguments[0]);
  return [matrix]() mutable {
    if (matrix.values == 0)
      return true;
    const bool isNf4 = std::is_same_v<Codes, Nf4Codes>;
    const auto layout = isNf4
                            ? fcdp::PackedLayout::ofNf4(int64_t(matrix.values))
                            : fcdp::PackedLayout::ofInt8(
                                  int64_t(matrix.values / matrix.blockValues),
                                  int64_t(matrix.blockValues));
    matrix.packed = at<const std::byte>(
        matrix.packed, uint64_t(layout.countBytes()), "the packed matrix");
    matrix.out =
        at<typename Out::Storage>(matrix.out, matrix.values, "the matrix");
    if (stickyError == cudaSuccess)
      for (uint64_t thread = 0; thread < kFakeThreads; ++thread)
        unpackValues<Codes, Out>(matrix, thread, kFakeThreads);
    return true;
  };
}

template <typename Codes, typename Out>
double countUnpackBytes(void **arguments) {
  auto &matrix = *static_cast<UnpackArguments *>(arguments[0]);
  if (matrix.values == 0)
    return 0;
  return double(matrix.values) *
         (double(matrix.blockBytes) / double(matrix.blockValues) +
          sizeof(typename Out::Storage));
}

Command prepareClear(void **arguments) {
  auto *values = *static_cast<float **>(arguments[0]);
  auto elements = *static_cast<uint64_t *>(arguments[1]);
  return [=] {
    float *to = at<float>(values, elements, "the values");
    if (stickyError == cudaSuccess)
      std::fill_n(to, elements, 0.0f);
    return true;
  };
}

double countClearBytes(void **arguments) {
  return double(sizeof(float)) * double(*static_cast<uint64_t *>(arguments[1]));
}

double countAddBytes(void **arguments) {
  return 3.0 * sizeof(float) * double(*static_cast<uint64_t *>(arguments[2]));
}

Command prepareAdd(void **arguments) {
  auto *sum = *static_cast<float **>(arguments[0]);
  auto *part = *static_cast<const float **>(arguments[1]);
  auto elements = *static_cast<uint64_t *>(arguments[2]);
  return [=] {
    float *to = at<float>(sum, elements, "the sum");
    const float *from = at<float>(part, elements, "the part");
    for (uint64_t i = 0; stickyError == cudaSuccess && i < kFakeThreads; ++i)
      addInPlace(to, from, elements, i, kFakeThreads);
    return true;
  };
}

/// Kernels that have been launched, by device. CUDA loads them at the first
/// launch.
std::map<int, std::set<const void *>> loadedKernels;

std::map<std::string, CUkern_st> &kernels() {
  static std::map<std::string, CUkern_st> all = {
#define FCDP_LIST_SUM(name, In, Out)                                           \
  {#name, {prepareSum<In, Out>, countSumBytes<In, Out>}},
      FCDP_SUM_KERNELS(FCDP_LIST_SUM)
#undef FCDP_LIST_SUM
#define FCDP_LIST_QUANTIZE(name, In, Block)                                    \
  {#name, {prepareQuantize<In, Block>, countQuantizeBytes<In, Block>}},
          FCDP_QUANTIZE_KERNELS(FCDP_LIST_QUANTIZE)
#undef FCDP_LIST_QUANTIZE
#define FCDP_LIST_SUM_MESSAGES(name, In, Out, Block)                           \
  {#name,                                                                      \
   {prepareSumMessages<In, Out, Block>,                                        \
    countSumMessagesBytes<In, Out, Block>}},
              FCDP_SUM_MESSAGES_KERNELS(FCDP_LIST_SUM_MESSAGES)
#undef FCDP_LIST_SUM_MESSAGES
                  {"fcdp_clear", {prepareClear, countClearBytes}},
#define FCDP_LIST_UNPACK(name, Codes, Out)                                     \
  {#name, {prepareUnpack<Codes, Out>, countUnpackBytes<Codes, Out>}},
      FCDP_UNPACK_KERNELS(FCDP_LIST_UNPACK)
#undef FCDP_LIST_UNPACK

          {"fcdp_add", {prepareAdd, countAddBytes}}};
  return all;
}

void copyNow(void *dst, const void *src, size_t bytes, bool isPageable) {
  std::byte *to = machine().translate(dst, bytes);
  const std::byte *from = machine().translate(src, bytes);
  if (isPageable) {
    to = to ? to : static_cast<std::byte *>(dst);
    from = from ? from : static_cast<const std::byte *>(src);
  }
  if (!to || !from)
    illegalAccess("a copy of " + std::to_string(bytes) +
                  " bytes that are not all in memory of the device");
  else if (stickyError == cudaSuccess)
    std::memmove(to, from, bytes);
}

/// Returns the stream or, for null, the current device's default stream, for
/// which no other stream waits.
std::shared_ptr<Stream> at(cudaStream_t stream) {
  static std::map<int, std::shared_ptr<Stream>> defaults;
  if (stream)
    return stream->stream;
  auto &own = defaults[currentDevice];
  if (!own)
    own = machine().makeStream(currentDevice, 0);
  return own;
}

/// Puts a copy on the stream.
void putCopy(cudaStream_t stream, void *dst, const void *src, size_t bytes,
             bool isPageable) {
  auto copy = [=] {
    copyNow(dst, src, bytes, isPageable);
    return true;
  };
  if (!machine().speed)
    return put(stream, copy);
  Speed &speed = *machine().speed;
  bool isToDevice = machine().isDeviceMemory(dst);
  if (isToDevice && machine().isDeviceMemory(src))
    return put(stream, copy, speed.kernel(2.0 * double(bytes)));
  double seconds = speed.first((isToDevice ? "h2d " : "d2h ") +
                               std::to_string(std::bit_width(bytes))) +
                   speed.copy(!isToDevice, double(bytes));
  put(stream, copy, seconds);
  put(stream, [=, on = at(stream), seen = machine().timeSeen()] {
    on->time = machine().speed->endOfCopy(!isToDevice, seen, on->time - seconds,
                                          on->time, double(bytes));
    return true;
  });
}

template <typename IsDone>
void waitUntil(Lock &lock, IsDone isDone) {
  auto deadline = std::chrono::steady_clock::now() + longestWait;
  while (!isDone()) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr, "a stream of the fake device does not end\n");
      std::abort();
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    lock.lock();
  }
}

void waitFor(Lock &lock, const std::shared_ptr<Stream> &stream) {
  waitUntil(lock, [&] { return machine().isDone(stream); });
}

} // namespace

// For the fake NCCL and the emulated libtorch.
namespace fcdp::fake {

std::shared_ptr<Stream> streamOf(cudaStream_t stream) { return at(stream); }
int deviceOfThread() { return currentDevice; }

void put(cudaStream_t stream, Command command, double seconds) {
  if (stream && stream->captured)
    stream->captured->push_back({std::move(command), seconds});
  else
    machine().enqueue(at(stream), std::move(command), seconds);
}

bool isCaptured(cudaStream_t stream) { return stream && stream->captured; }

bool isPinned(const void *address) {
  Lock lock(machine().mutex);
  return machine().translate(address, 1) && !machine().isDeviceMemory(address);
}

} // namespace fcdp::fake

extern "C" {

static CUresult writeValue32(CUstream stream, CUdeviceptr address,
                             cuuint32_t value, unsigned) {
  Lock lock = enter("cuStreamWriteValue32");
  if (stream->captured)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto *word = reinterpret_cast<uint32_t *>(
      machine().translate(reinterpret_cast<void *>(address), sizeof(value)));
  if (!word)
    return CUDA_ERROR_INVALID_VALUE;
  machine().enqueue(at(stream), [=] {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return true;
  });
  return CUDA_SUCCESS;
}

/// As on a GPU, nothing else makes the stream go on.
static CUresult waitValue32(CUstream stream, CUdeviceptr address,
                            cuuint32_t value, unsigned flags) {
  Lock lock = enter("cuStreamWaitValue32");
  if (stream->captured)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto *word = reinterpret_cast<uint32_t *>(
      machine().translate(reinterpret_cast<void *>(address), sizeof(value)));
  if (!word || flags != CU_STREAM_WAIT_VALUE_GEQ)
    return CUDA_ERROR_INVALID_VALUE;
  machine().enqueue(at(stream), [=] {
    return int32_t(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
  });
  return CUDA_SUCCESS;
}

static CUresult getDriverAttribute(int *value, CUdevice_attribute attribute,
                                   CUdevice) {
  *value =
      attribute ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
          ? machine().sharesByHandles
          : 1;
  return CUDA_SUCCESS;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  Lock lock = enter("cudaDeviceCanAccessPeer");
  *can = !machine().withoutPeers.count({device, peer});
  return result();
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = machine().runtimeVersion;
  return cudaSuccess;
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                 unsigned long long,
                                 cudaDriverEntryPointQueryResult *status) {
  const char *queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  machine().queues = queues ? std::atoi(queues) : 8;
  *function = nullptr;
  if (std::strcmp(symbol, "cuStreamWriteValue32") == 0)
    *function = reinterpret_cast<void *>(&writeValue32);
  if (std::strcmp(symbol, "cuStreamWaitValue32") == 0)
    *function = reinterpret_cast<void *>(&waitValue32);
  if (std::strcmp(symbol, "cuDeviceGetAttribute") == 0)
    *function = reinterpret_cast<void *>(&getDriverAttribute);
  *status = *function ? cudaDriverEntryPointSuccess
                      : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorIllegalAddress:
    return "cudaErrorIllegalAddress";
  default:
    return "an error";
  }
}

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorIllegalAddress:
    return "an illegal memory access was encountered";
  default:
    return "something failed";
  }
}

cudaError_t cudaPeekAtLastError() { return lastError; }
cudaError_t cudaGetLastError() { return std::exchange(lastError, stickyError); }

cudaError_t cudaGetDeviceCount(int *count) {
  Lock lock = enter("cudaGetDeviceCount");
  *count = machine().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  Lock lock = enter("cudaSetDevice");
  currentDevice = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  Lock lock = enter("cudaDeviceGetAttribute");
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount:
    *value = machine().multiprocessors;
    return result();
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = 227 << 10;
    return result();
  case cudaDevAttrComputeCapabilityMajor:
    *value = 9;
    return result();
  case cudaDevAttrComputeCapabilityMinor:
    *value = 0;
    return result();
  default:
    return result(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
  std::snprintf(id, size_t(length), "0000:%02X:00.0", 0x10 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority) {
  Lock lock = enter("cudaStreamCreateWithPriority");
  if (flags != cudaStreamNonBlocking)
    return result(cudaErrorInvalidValue);
  *stream = new CUstream_st{machine().makeStream(currentDevice, priority)};
  return result();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock = enter("cudaStreamDestroy");
  machine().forget(stream->stream);
  delete stream;
  return result();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Lock lock = enter("cudaStreamQuery");
  if (stream && stream->captured)
    return result(cudaErrorStreamCaptureUnsupported);
  bool isDone = machine().isDone(at(stream));
  return result(isDone ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock = enter("cudaStreamSynchronize");
  waitFor(lock, at(stream));
  return result();
}

cudaError_t cudaDeviceSynchronize() {
  Lock lock = enter("cudaDeviceSynchronize");
  waitUntil(lock, [] { return machine().isIdle(); });
  return result();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  Lock lock = enter("cudaStreamWaitEvent");
  if (stream && stream->captured)
    return result(cudaErrorStreamCaptureUnsupported);
  // Use the current point: recording the event again does not move it.
  machine().enqueue(at(stream), [point = event->point, on = at(stream)] {
    bool isReached = machine().advance(point);
    if (isReached && point.stream)
      on->time = std::max(on->time, point.stream->time);
    return isReached;
  });
  return result();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  Lock lock = enter("cudaEventCreateWithFlags");
  if (flags != cudaEventDisableTiming && flags != cudaEventDefault)
    return result(cudaErrorInvalidValue);
  *event = new CUevent_st{flags == cudaEventDefault, {}};
  return result();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock = enter("cudaEventDestroy");
  delete event;
  return result();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock = enter("cudaEventQuery");
  bool isDone = machine().isDone(event->point);
  return result(isDone ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock = enter("cudaEventSynchronize");
  waitUntil(lock, [&] { return machine().isDone(event->point); });
  return result();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock = enter("cudaEventRecord");
  if (stream && stream->captured)
    return result(cudaErrorStreamCaptureUnsupported);
  if (event->isTimed) {
    event->reached = std::make_shared<double>(readSteadyClock());
    machine().enqueue(at(stream), [reached = event->reached, on = at(stream)] {
      *reached = machine().speed ? on->time : readSteadyClock();
      return true;
    });
  }
  event->point = {at(stream), at(stream)->issued};
  return result();
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  Lock lock = enter("cudaEventElapsedTime");
  if (!begin->reached || !end->reached)
    return result(cudaErrorInvalidResourceHandle);
  for (cudaEvent_t event : {begin, end})
    if (!machine().advance(event->point))
      return result(cudaErrorNotReady);
  *milliseconds = float(1e3 * (*end->reached - *begin->reached));
  return result();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode) {
  Lock lock = enter("cudaStreamBeginCapture");
  if (mode != cudaStreamCaptureModeRelaxed)
    return result(cudaErrorInvalidValue);
  if (!stream || stream->captured)
    return result(cudaErrorIllegalState);
  stream->captured.emplace();
  return result();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  Lock lock = enter("cudaStreamEndCapture");
  if (!stream->captured)
    return result(cudaErrorIllegalState);
  *graph = new CUgraph_st{std::move(*stream->captured)};
  stream->captured.reset();
  return result();
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable,
                                          cudaGraph_t graph,
                                          unsigned long long) {
  Lock lock = enter("cudaGraphInstantiateWithFlags");
  *executable = new CUgraphExec_st{graph->commands};
  return result();
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  Lock lock = enter("cudaGraphUpload");
  return result();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  Lock lock = enter("cudaGraphLaunch");
  for (const TimedCommand &command : executable->commands)
    put(stream, command.run, command.seconds);
  return result();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Lock lock = enter("cudaGraphDestroy");
  delete graph;
  return result();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  Lock lock = enter("cudaGraphExecDestroy");
  delete executable;
  return result();
}

cudaError_t cudaMalloc(void **address, size_t bytes) {
  Lock lock = enter("cudaMalloc");
  *address = machine().allocate(bytes);
  return result(*address ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *address) {
  Lock lock = enter("cudaFree");
  if (machine().freesWait)
    waitUntil(lock, [] { return machine().isIdle(); });
  return result(machine().release(address) ? cudaSuccess
                                           : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  Lock lock = enter("cudaMemGetInfo");
  *free = machine().freeDeviceBytes;
  *total = machine().freeDeviceBytes + machine().deviceBytes;
  return result();
}

cudaError_t cudaMemset(void *address, int value, size_t bytes) {
  Lock lock = enter("cudaMemset");
  // The host continues before the memset has run.
  machine().enqueue(at(cudaStream_t(nullptr)), [=] {
    if (std::byte *to = machine().translate(address, bytes))
      std::memset(to, value, bytes);
    else
      illegalAccess("setting memory that is not there");
    return true;
  });
  return result();
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  Lock lock = enter("cudaMemcpyAsync");
  bool isPageable =
      !machine().translate(dst, bytes) || !machine().translate(src, bytes);
  if (isPageable && stream && stream->captured)
    return result(cudaErrorStreamCaptureUnsupported);
  putCopy(stream, dst, src, bytes, isPageable);
  if (isPageable) {
    machine().count("copies of pageable memory");
    waitFor(lock, at(stream));
  }
  return result();
}

cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned) {
  Lock lock = enter("cudaHostAlloc");
  *address = std::calloc(1, bytes);
  machine().pin(*address, bytes);
  return result();
}

cudaError_t cudaFreeHost(void *address) {
  Lock lock = enter("cudaFreeHost");
  if (!machine().unpin(address))
    return result(cudaErrorInvalidValue);
  std::free(address);
  return result();
}

cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned) {
  Lock lock = enter("cudaHostRegister");
  if (machine().mostPinnedBytes && bytes > *machine().mostPinnedBytes)
    return result(cudaErrorMemoryAllocation);
  machine().pin(address, bytes);
  return result();
}

cudaError_t cudaHostUnregister(void *address) {
  Lock lock = enter("cudaHostUnregister");
  return result(machine().unpin(address) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                cudaJitOption *, void **, unsigned,
                                cudaLibraryOption *, void **, unsigned) {
  // The first bytes of a fat binary.
  static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
  if (std::memcmp(code, magic, sizeof(magic)) != 0)
    return result(cudaErrorInvalidKernelImage);
  Lock lock = enter("cudaLibraryLoadData");
  loadedKernels[currentDevice].clear();
  *library = reinterpret_cast<cudaLibrary_t>(&kernels());
  return result();
}

cudaError_t cudaLibraryUnload(cudaLibrary_t) { return result(); }

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t,
                                 const char *name) {
  auto found = kernels().find(name);
  if (found == kernels().end())
    return result(cudaErrorSymbolNotFound);
  *kernel = &found->second;
  return result();
}

cudaError_t cudaLaunchKernel(const void *function, dim3, dim3, void **arguments,
                             size_t, cudaStream_t stream) {
  Lock lock = enter("cudaLaunchKernel");
  // As in CUDA, a kernel runs only in a stream of the current device.
  if (at(stream)->device != currentDevice)
    return result(cudaErrorInvalidResourceHandle);
  if (machine().doesNothing)
    return result();
  if (loadedKernels[currentDevice].insert(function).second)
    machine().count("loads of kernels");
  auto hostKernel = machine().hostKernels.find(function);
  if (hostKernel != machine().hostKernels.end()) {
    machine().fail("the kernel " + hostKernel->second +
                   " has no code for this device");
    return result(cudaErrorNoKernelImageForDevice);
  }
  auto *kernel = static_cast<const CUkern_st *>(function);
  double seconds = machine().speed
                       ? machine().speed->kernel(kernel->countBytes(arguments))
                       : 0;
  put(stream, kernel->prepare(arguments), seconds);
  return result();
}

} // extern "C"
