// SPDX-License-Identifier: Apache-2.0
//
// The calls of libcudart on streams, events, captures and graphs, and kernels.

#include "Checker.h"

#include <atomic>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>

using namespace fcdp::contracts;

namespace {

thread_local CaptureMode threadMode = CaptureMode::Global;

/// The memory that graphs use, by the handles of graphs and of their executable
/// forms.
/// Guarded by the checker's mutex.
std::map<Handle, std::vector<Use>> graphs;

CaptureMode modeOf(cudaStreamCaptureMode mode) {
  switch (mode) {
  case cudaStreamCaptureModeGlobal:
    return CaptureMode::Global;
  case cudaStreamCaptureModeThreadLocal:
    return CaptureMode::ThreadLocal;
  default:
    return CaptureMode::Relaxed;
  }
}

/// A legacy stream waits for blocking streams, also for captured ones.
void requireNoBlockingCapture(Checker &rules, cudaStream_t stream) {
  if (!stream && rules.work.hasBlockingStream(rules.captures.capturedStreams()))
    rules.captures.requireNoCapture();
}

cudaError_t madeStream(Checker &rules, std::unique_lock<std::mutex> &lock,
                       cudaStream_t *stream, unsigned flags,
                       cudaError_t result) {
  if (result != cudaSuccess)
    return result;
  lock.lock();
  rules.work.created(*stream, deviceOfThread(),
                     !(flags & cudaStreamNonBlocking));
  return result;
}

cudaError_t instantiated(std::unique_lock<std::mutex> &lock,
                         cudaGraphExec_t *executable, cudaGraph_t graph,
                         cudaError_t result) {
  if (result != cudaSuccess)
    return result;
  lock.lock();
  graphs[*executable] = graphs[graph];
  return result;
}

/// Notes that all work up to the points has ended, if the library says so.
cudaError_t answered(Checker &rules, std::unique_lock<std::mutex> &lock,
                     const std::vector<Point> &points, cudaError_t result) {
  if (result != cudaSuccess)
    return result;
  lock.lock();
  for (const Point &point : points)
    rules.work.reached(point);
  return result;
}

/// Return the points that a query of the event or stream, or a wait for it,
/// shows to be reached.
std::vector<Point> pointsOf(Checker &rules, cudaEvent_t event) {
  rules.captures.requireEventNotCaptured(event);
  if (auto point = rules.work.pointOf(event))
    return {*point};
  return {};
}

std::vector<Point> pointsOf(Checker &rules, cudaStream_t stream) {
  Handle on = handleOf(stream);
  rules.captures.requireNotCaptured(on);
  requireNoBlockingCapture(rules, stream);
  return {rules.work.endOf(on)};
}

using ValueFunction = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned);

/// A number that a stream writes into pinned memory, or waits for there.
struct ValueCall {
  const char *name;
  std::atomic<ValueFunction *> real;

  CUresult operator()(void *caller, CUstream stream, CUdeviceptr address,
                      cuuint32_t value, unsigned flags) {
    Call call(name, caller);
    Checker &rules = checker();
    {
      std::lock_guard<std::mutex> lock(rules.mutex);
      rules.issue(
          handleOf(stream),
          {name,
           {rules.memory.requireLive(reinterpret_cast<const void *>(address),
                                     sizeof(value))}});
    }
    return real.load()(stream, address, value, flags);
  }
};
ValueCall writeCall{"cuStreamWriteValue32", nullptr};
ValueCall waitCall{"cuStreamWaitValue32", nullptr};

CUresult writeValue(CUstream stream, CUdeviceptr address, cuuint32_t value,
                    unsigned flags) {
  return writeCall(__builtin_return_address(0), stream, address, value, flags);
}

CUresult waitValue(CUstream stream, CUdeviceptr address, cuuint32_t value,
                   unsigned flags) {
  return waitCall(__builtin_return_address(0), stream, address, value, flags);
}

/// Puts the checker's function in the place of the driver's.
void replace(ValueCall &call, ValueFunction &own, const char *symbol,
             void **function) {
  if (!*function || std::strcmp(symbol, call.name) != 0)
    return;
  call.real = reinterpret_cast<ValueFunction *>(*function);
  *function = reinterpret_cast<void *>(&own);
}

} // namespace

namespace fcdp::contracts {
CaptureMode captureModeOfThread() { return threadMode; }
} // namespace fcdp::contracts

extern "C" {

cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                 unsigned version, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult *status) {
  FCDP_CHECK_CALL(cudaGetDriverEntryPointByVersion);
  lock.unlock();
  cudaError_t result = real(symbol, function, version, flags, status);
  if (result == cudaSuccess) {
    replace(writeCall, writeValue, symbol, function);
    replace(waitCall, waitValue, symbol, function);
  }
  return result;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority) {
  FCDP_CHECK_CALL(cudaStreamCreateWithPriority);
  lock.unlock();
  return madeStream(rules, lock, stream, flags, real(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  FCDP_CHECK_CALL(cudaStreamCreateWithFlags);
  lock.unlock();
  return madeStream(rules, lock, stream, flags, real(stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaStreamDestroy);
  rules.captures.requireNotCaptured(stream);
  rules.work.destroyed(stream);
  lock.unlock();
  return real(stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaStreamQuery);
  std::vector<Point> points = pointsOf(rules, stream);
  lock.unlock();
  return answered(rules, lock, points, real(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaStreamSynchronize);
  std::vector<Point> points = pointsOf(rules, stream);
  lock.unlock();
  return answered(rules, lock, points, real(stream));
}

cudaError_t cudaDeviceSynchronize() {
  FCDP_CHECK_CALL(cudaDeviceSynchronize);
  rules.captures.requireNoCapture();
  std::vector<Point> points = rules.work.endsOf(deviceOfThread());
  lock.unlock();
  return answered(rules, lock, points, real());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags) {
  FCDP_CHECK_CALL(cudaStreamWaitEvent);
  Handle on = handleOf(stream);
  bool isExternal = flags & cudaEventWaitExternal;
  if (!isExternal && !rules.captures.wait(on, event))
    rules.work.wait(on, event);
  lock.unlock();
  return real(stream, event, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaEventRecord);
  Handle on = handleOf(stream);
  requireNoBlockingCapture(rules, stream);
  rules.order.requireSettledOn(on);
  rules.captures.record(event, on);
  if (!rules.captures.isCaptured(on))
    rules.work.record(event, on);
  lock.unlock();
  return real(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  FCDP_CHECK_CALL(cudaEventQuery);
  rules.captures.requireSafe(std::this_thread::get_id(), threadMode);
  std::vector<Point> points = pointsOf(rules, event);
  lock.unlock();
  return answered(rules, lock, points, real(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FCDP_CHECK_CALL(cudaEventSynchronize);
  std::vector<Point> points = pointsOf(rules, event);
  lock.unlock();
  return answered(rules, lock, points, real(event));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  FCDP_CHECK_CALL(cudaEventElapsedTime);
  std::vector<Point> points = pointsOf(rules, begin);
  for (const Point &point : pointsOf(rules, end))
    points.push_back(point);
  lock.unlock();
  return answered(rules, lock, points, real(milliseconds, begin, end));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FCDP_CHECK_CALL(cudaEventDestroy);
  rules.captures.forget(event);
  rules.work.forget(event);
  lock.unlock();
  return real(event);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  FCDP_CHECK_CALL(cudaThreadExchangeStreamCaptureMode);
  lock.unlock();
  CaptureMode given = modeOf(*mode);
  cudaError_t result = real(mode);
  if (result == cudaSuccess)
    threadMode = given;
  return result;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode) {
  FCDP_CHECK_CALL(cudaStreamBeginCapture);
  rules.captures.requireNotCaptured(handleOf(stream));
  lock.unlock();
  cudaError_t result = real(stream, mode);
  if (result != cudaSuccess)
    return result;
  lock.lock();
  ++rules.counts.captures;
  rules.captures.begin(stream, modeOf(mode), std::this_thread::get_id());
  return result;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  FCDP_CHECK_CALL(cudaStreamEndCapture);
  std::vector<Use> uses =
      rules.captures.end(handleOf(stream), std::this_thread::get_id());
  lock.unlock();
  cudaError_t result = real(stream, graph);
  if (result != cudaSuccess)
    return result;
  lock.lock();
  graphs[*graph] = std::move(uses);
  return result;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable,
                                          cudaGraph_t graph,
                                          unsigned long long flags) {
  FCDP_CHECK_CALL(cudaGraphInstantiateWithFlags);
  lock.unlock();
  return instantiated(lock, executable, graph, real(executable, graph, flags));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  FCDP_CHECK_CALL(cudaGraphInstantiate);
  lock.unlock();
  return instantiated(lock, executable, graph, real(executable, graph, flags));
}

/// A graph uses the memory of its capture at each launch.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaGraphLaunch);
  for (const Use &use : graphs[executable]) {
    for (const Span &span : use.memory)
      if (span.block && !rules.memory.isLive(span))
        rules.graphOfFreedMemory(use, span);
    rules.issue(handleOf(stream), use);
  }
  lock.unlock();
  return real(executable, stream);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  FCDP_CHECK_CALL(cudaGraphDestroy);
  graphs.erase(graph);
  lock.unlock();
  return real(graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  FCDP_CHECK_CALL(cudaGraphExecDestroy);
  graphs.erase(executable);
  lock.unlock();
  return real(executable);
}

/// The memory of kernels is not known.
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
                             void **arguments, size_t shared,
                             cudaStream_t stream) {
  FCDP_CHECK_CALL(cudaLaunchKernel);
  requireNoBlockingCapture(rules, stream);
  rules.issue(handleOf(stream), {"cudaLaunchKernel", {}});
  lock.unlock();
  return real(function, grid, block, arguments, shared, stream);
}

} // extern "C"
