// SPDX-License-Identifier: Apache-2.0

#include "NcclRanks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace fcdp;

llvm::Error NcclRanks::add(llvm::ArrayRef<llvm::StringRef> words) {
  auto after = [&](llvm::StringRef key) {
    auto at = llvm::find(words, key);
    return at == words.end() || at + 1 == words.end() ? llvm::StringRef()
                                                      : at[1];
  };
  int64_t rank = -1, group = 0;
  llvm::StringRef host = after("on"), groupWord = after("Group");
  if (after("Rank").getAsInteger(10, rank) || rank < 0 || host.empty() ||
      (!groupWord.empty() && groupWord.getAsInteger(10, group)))
    return llvm::createStringError(
        "expected a line as '# Rank 0 Group 0 Pid 1 on HOST device 0'");
  if (!numbers.insert(rank).second)
    return llvm::createStringError(
        llvm::formatv("expected rank {0} once: processes of programs that were "
                      "built without MPI=1 do not work together",
                      rank));
  ++groups[group][host.str()];
  ++hosts[host.str()];
  return llvm::Error::success();
}

/// Returns the ranks of each host, or 0 if they differ.
static int64_t getEqualCount(const std::map<std::string, int64_t> &hosts) {
  int64_t count = hosts.begin()->second;
  for (const auto &[host, ranks] : hosts)
    if (ranks != count)
      return 0;
  return count;
}

int64_t NcclRanks::getGroupSize() const {
  int64_t size = 0;
  for (const auto &[host, ranks] : groups.begin()->second)
    size += ranks;
  return size;
}

llvm::Expected<NcclGroups> NcclRanks::getGroups() const {
  if (groups.empty())
    return llvm::createStringError(
        "expected ranks ('# Rank 0 ... on HOST device 0') before results");
  NcclGroups found;
  found.nodes = hosts.size();
  found.ranksPerNode = getEqualCount(hosts);
  if (found.ranksPerNode == 0)
    return llvm::createStringError("expected as many ranks on each host");
  if (getGroupSize() < 2)
    return llvm::createStringError("expected 2 or more ranks in a group");
  auto all = [&](size_t nodes, int64_t ranks) {
    return llvm::all_of(groups, [&](const auto &group) {
      return group.second.size() == nodes &&
             getEqualCount(group.second) == ranks;
    });
  };
  if (all(1, found.ranksPerNode))
    found.set = RankSet::local;
  else if (groups.size() == 1)
    found.set = RankSet::world;
  else if (all(hosts.size(), 1))
    found.set = RankSet::node;
  else
    return llvm::createStringError("expected one group of all ranks, a group "
                                   "for each host, or groups with "
                                   "one rank on each host");
  if (found.set == RankSet::local)
    found.nodes = 1;
  return found;
}
