// SPDX-License-Identifier: Apache-2.0
//
// The functions of cuBLAS that libtorch calls to make a handle. Handles keep
// the stream and the workspace that they are given.

#include "fake/Machine.h"

#include <cublasLt.h>
#include <cublas_v2.h>

struct cublasContext {
  cudaStream_t stream = nullptr;
  void *workspace = nullptr;
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
};
struct cublasLtContext {};

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
/// As in cuBLAS, the workspace must be memory of the device.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                     size_t bytes) {
  std::lock_guard<std::recursive_mutex> lock(
      fcdp::fake::Machine::instance().mutex);
  fcdp::fake::Machine::instance().count("cublasSetWorkspace_v2");
  if (bytes && !fcdp::fake::Machine::instance().translate(workspace, bytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
  *mode = handle->mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
