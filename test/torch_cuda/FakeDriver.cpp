// SPDX-License-Identifier: Apache-2.0
//
// A libcuda for libtorch's table of the driver's functions (libcaffe2_nvrtc).
// Each device has its context. Nothing else is called without kernels that are
// compiled as a program runs, and ends the process.

#include <cstdio>
#include <cstdlib>

#define FCDP_REFUSED(name)                                                     \
  int name() {                                                                 \
    std::fprintf(stderr, "the fake driver has no " #name "\n");                \
    std::abort();                                                              \
  }

extern "C" {

int cuDevicePrimaryCtxGetState(int, unsigned *flags, int *isActive) {
  *flags = 0;
  *isActive = 1;
  return 0;
}

/// There is a context, whichever thread asks.
int cuCtxGetCurrent(void **context) {
  static int one;
  *context = &one;
  return 0;
}

FCDP_REFUSED(cuCtxSetCurrent)
FCDP_REFUSED(cuDeviceGet)
FCDP_REFUSED(cuDeviceGetAttribute)
FCDP_REFUSED(cuDevicePrimaryCtxRetain)
FCDP_REFUSED(cuFuncGetAttribute)
FCDP_REFUSED(cuFuncSetAttribute)
FCDP_REFUSED(cuFuncSetCacheConfig)
FCDP_REFUSED(cuGetErrorString)
FCDP_REFUSED(cuLaunchCooperativeKernel)
FCDP_REFUSED(cuLaunchKernel)
FCDP_REFUSED(cuLinkAddData_v2)
FCDP_REFUSED(cuLinkComplete)
FCDP_REFUSED(cuLinkCreate_v2)
FCDP_REFUSED(cuModuleGetFunction)
FCDP_REFUSED(cuModuleLoad)
FCDP_REFUSED(cuModuleLoadData)
FCDP_REFUSED(cuModuleLoadDataEx)
FCDP_REFUSED(cuModuleUnload)
FCDP_REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
FCDP_REFUSED(cuPointerGetAttribute)
FCDP_REFUSED(cuTensorMapEncodeTiled)

} // extern "C"
