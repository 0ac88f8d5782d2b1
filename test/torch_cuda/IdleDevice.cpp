// SPDX-License-Identifier: Apache-2.0
//
// Products that do nothing, and a device that does nothing, for programs whose
// host is timed.

#include "fake/Machine.h"

#include <cublasLt.h>
#include <cublas_v2.h>

namespace {

[[maybe_unused]] const bool doesNothing =
    fcdp::fake::Machine::instance().doesNothing = true;

} // namespace

extern "C" {

cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t,
                              cublasOperation_t, int, int, int, const float *,
                              const float *, int, const float *, int,
                              const float *, float *, int) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t, cublasOperation_t,
                                         cublasOperation_t, int, int, int,
                                         const float *, const float *, int,
                                         long long, const float *, int,
                                         long long, const float *, float *, int,
                                         long long, int) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t,
                            cublasOperation_t, int, int, int, const void *,
                            const void *, cudaDataType, int, const void *,
                            cudaDataType, int, const void *, void *,
                            cudaDataType, int, cublasComputeType_t,
                            cublasGemmAlgo_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
    const void *, const void *, cudaDataType, int, long long, const void *,
    cudaDataType, int, long long, const void *, void *, cudaDataType, int,
    long long, int, cublasComputeType_t, cublasGemmAlgo_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *results,
    int *numResults) {
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *numResults = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *,
               const void *, cublasLtMatrixLayout_t, const void *,
               cublasLtMatrixLayout_t, const void *, const void *,
               cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
               const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t) {
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
