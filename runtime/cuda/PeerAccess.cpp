// SPDX-License-Identifier: Apache-2.0
#include "cuda/PeerAccess.h"

#include <cuda.h>
#include <optional>

namespace fcdp {

namespace {

/// The version in which the driver had cuDeviceGetAttribute.
constexpr unsigned attributeVersion = 2000;

/// Returns none if the driver does not say.
std::optional<bool> canShareByHandles(const CudaLibrary &cuda, int device) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  cuda.check(cuda.cudaGetDriverEntryPointByVersion("cuDeviceGetAttribute",
                                                   &found, attributeVersion,
                                                   cudaEnableDefault, &status),
             "cudaGetDriverEntryPointByVersion");
  if (status != cudaDriverEntryPointSuccess || !found)
    return std::nullopt;
  auto get = reinterpret_cast<decltype(&::cuDeviceGetAttribute)>(found);
  bool canShare = true;
  for (CUdevice_attribute attribute :
       {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int value = 0;
    if (get(&value, attribute, CUdevice(device)) != CUDA_SUCCESS)
      return std::nullopt;
    canShare &= value != 0;
  }
  return canShare;
}

void add(std::string &list, int device) {
  list += (list.empty() ? "" : ", ") + std::to_string(device);
}

} // namespace

std::string describePeers(const CudaLibrary &cuda, int device) {
  int devices = 0;
  cuda.check(cuda.cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  std::string direct, others;
  for (int peer = 0; peer < devices; ++peer) {
    if (peer == device)
      continue;
    int can = 0;
    cuda.check(cuda.cudaDeviceCanAccessPeer(&can, device, peer),
               "cudaDeviceCanAccessPeer");
    add(can ? direct : others, peer);
  }
  if (direct.empty() && others.empty())
    return "";
  std::string text = "GPU " + std::to_string(device) + " can access the memory";
  text += direct.empty() ? " of no other GPU" : " of GPU " + direct;
  if (!direct.empty() && !others.empty())
    text += " and not of " + others;
  if (!others.empty())
    text += ", so NCCL copies through host memory";
  if (std::optional<bool> canShare = canShareByHandles(cuda, device))
    text += *canShare ? "; memory can be shared by handles (cuMem)"
                      : "; memory cannot be shared by handles (cuMem), so NCCL "
                        "has no windows";
  return text;
}

} // namespace fcdp
