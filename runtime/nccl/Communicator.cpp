// SPDX-License-Identifier: Apache-2.0

#include "nccl/Communicator.h"

#include <exception>

namespace fcdp {

ncclResult_t Communicator::join(const ncclUniqueId &id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.commName = options.name.c_str();
  if (options.mostCtas)
    config.maxCTAs = int(*options.mostCtas);
  if (nccl.has2_28() && options.exchangesByCopyEngines)
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  if (nccl.has2_28() && options.channelsPerNetPeer)
    config.nChannelsPerNetPeer = int(*options.channelsPerNetPeer);
  return nccl.ncclCommInitRankConfig(&comm, int(options.ranks), id,
                                     int(options.rank), &config);
}

ncclResult_t Communicator::destroy() {
  ncclComm_t own = live();
  if (!own)
    return ncclInvalidUsage;
  if (window)
    (void)nccl.ncclCommWindowDeregister(own, window);
  if (buffer)
    (void)nccl.ncclCommDeregister(own, buffer);
  // This finalizes, too. An abort during it then frees nothing: if several
  // calls end a communicator, NCCL lets the first one free it.
  return nccl.ncclCommDestroy(own);
}

ncclResult_t Communicator::registerWindow(std::byte *base, size_t bytes) {
  ncclComm_t own = live();
  // Offsets into the window are equal on all ranks, because the plan is.
  return own ? nccl.ncclCommWindowRegister(own, base, bytes, &window,
                                           NCCL_WIN_COLL_SYMMETRIC)
             : ncclInvalidUsage;
}

ncclResult_t Communicator::registerBuffer(std::byte *base, size_t bytes) {
  ncclComm_t own = live();
  return own ? nccl.ncclCommRegister(own, base, bytes, &buffer)
             : ncclInvalidUsage;
}

ncclResult_t Communicator::allGather(const std::byte *in, std::byte *out,
                                     size_t bytes, cudaStream_t stream) {
  ncclComm_t own = live();
  return own ? nccl.ncclAllGather(in, out, bytes, ncclInt8, own, stream)
             : ncclInvalidUsage;
}

ncclResult_t Communicator::exchangeChunks(const std::byte *in, std::byte *out,
                                          size_t bytes, cudaStream_t stream) {
  ncclComm_t own = live();
  if (!own)
    return ncclInvalidUsage;
  if (nccl.has2_28() && options.exchangesByCopyEngines && hasWindow())
    return nccl.ncclAlltoAll(in, out, bytes, ncclInt8, own, stream);
  return sendChunks(own, in, out, bytes, stream);
}

ncclResult_t Communicator::sendChunks(ncclComm_t own, const std::byte *in,
                                      std::byte *out, size_t bytes,
                                      cudaStream_t stream) {
  const uint32_t ranks = options.ranks, rank = options.rank;
  ncclResult_t result = nccl.ncclGroupStart();
  // Peers are visited in the order rank + 1, rank + 2, ..., so that the ranks
  // do not all send to rank 0 first.
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    uint32_t to = (rank + distance) % ranks;
    uint32_t from = (rank + ranks - distance) % ranks;
    if (result == ncclSuccess)
      result =
          nccl.ncclSend(in + to * bytes, bytes, ncclInt8, int(to), own, stream);
    if (result == ncclSuccess)
      result = nccl.ncclRecv(out + from * bytes, bytes, ncclInt8, int(from),
                             own, stream);
  }
  // The group is ended even after an error; otherwise the calling thread would
  // stay in it.
  ncclResult_t ended = nccl.ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

ncclResult_t Communicator::reduceScatter(const std::byte *in, std::byte *out,
                                         size_t elements, ncclDataType_t type,
                                         cudaStream_t stream) {
  ncclComm_t own = live();
  return own ? nccl.ncclReduceScatter(in, out, elements, type, ncclSum, own,
                                      stream)
             : ncclInvalidUsage;
}

std::optional<ncclResult_t> Communicator::findError() {
  std::lock_guard<std::mutex> lock(ending);
  ncclComm_t own = live();
  if (!own)
    return std::nullopt;
  ncclResult_t state = ncclSuccess;
  ncclResult_t asked = nccl.ncclCommGetAsyncError(own, &state);
  if (asked != ncclSuccess)
    return asked;
  return state == ncclSuccess || state == ncclInProgress ? std::nullopt
                                                         : std::optional(state);
}

void Communicator::abort() noexcept {
  std::lock_guard<std::mutex> lock(ending);
  if (isAborted.exchange(true))
    return;
  ncclComm_t own = std::atomic_ref<ncclComm_t>(comm).load();
  if (!own)
    return;
  try {
    // NCCL restores the thread's device, which creates a context on it.
    useDevice();
  } catch (const std::exception &) {
    // The device itself may have failed.
  }
  (void)nccl.ncclCommAbort(own);
}

std::string Communicator::textOf(ncclResult_t result) const {
  if (isAborted)
    return "the group was aborted";
  const char *detail = nccl.ncclGetLastError(nullptr);
  std::string text = nccl.ncclGetErrorString(result);
  return detail && *detail ? text + " (" + detail + ")" : text;
}

} // namespace fcdp
