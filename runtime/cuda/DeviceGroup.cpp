// SPDX-License-Identifier: Apache-2.0

#include "cuda/DeviceGroup.h"

#include <system_error>
#include <thread>

namespace fcdp {

std::string describe(const std::vector<Registration> &registrations) {
  static constexpr const char *names[] = {"nothing", "buffer", "window"};
  std::string text;
  for (const Registration &one : registrations) {
    if (one.group.empty())
      continue;
    text += (text.empty() ? "" : ", ") + std::string(names[int(one.kind)]) +
            " of " + one.group;
    if (!one.problem.empty())
      text += " (" + one.problem + ")";
  }
  return text.empty() ? "" : "NCCL has the device arena as " + text;
}

void abortAll(const std::vector<DeviceGroup *> &groups,
              const std::function<void()> &meanwhile) noexcept {
  std::vector<std::thread> threads;
  for (DeviceGroup *group : groups)
    try {
      if (group)
        threads.emplace_back([group] { group->abort(); });
    } catch (const std::system_error &) {
      // There may be no more threads.
      if (meanwhile)
        meanwhile();
      group->abort();
    }
  if (meanwhile)
    meanwhile();
  for (std::thread &thread : threads)
    thread.join();
}

std::string DeviceGroup::describePeers() const {
  std::string ranks;
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (peer != rank())
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(worldRank(peer));
  return (size() > 2 ? "ranks " : "rank ") + ranks;
}

void DeviceGroup::count(size_t bytes) {
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (peer != rank())
      sent[peer].fetch_add(bytes, std::memory_order_relaxed);
}

void DeviceGroup::allGather(const std::byte *in, std::byte *out, size_t bytes,
                            cudaStream_t stream) {
  count(bytes);
  if (bytes && size() > 1)
    doAllGather(in, out, bytes, stream);
}

void DeviceGroup::exchangeChunks(const std::byte *in, std::byte *out,
                                 size_t bytes, cudaStream_t stream) {
  count(bytes);
  if (bytes && size() > 1)
    doExchangeChunks(in, out, bytes, stream);
}

void DeviceGroup::reduceScatter(const std::byte *in, std::byte *out,
                                size_t elements, DType type,
                                cudaStream_t stream) {
  count(elements * byteSize(type));
  if (elements && size() > 1)
    doReduceScatter(in, out, elements, type, stream);
}

} // namespace fcdp
