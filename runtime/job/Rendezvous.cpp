// SPDX-License-Identifier: Apache-2.0

#include "job/Rendezvous.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>

namespace fcdp {
namespace {

using Clock = std::chrono::steady_clock;

/// The interval of polls for this number of ranks. With more ranks the interval
/// grows, so that the store serves no more values per second.
constexpr std::chrono::milliseconds pollTime{20};
constexpr uint32_t ranksOfPollTime = 16;
/// Time that the rank that serves the store stays after a failed meeting, so
/// that the others can read why it failed.
constexpr std::chrono::seconds lingerTime{3};
const char *const abortedKey = "join/aborted";

std::string key(const char *folder, uint32_t rank) {
  return std::string(folder) + "/" + std::to_string(rank);
}

std::string spell(const JoinRecord &record) {
  return "launcher rank " + std::to_string(record.launcherRank) + " (host " +
         record.hostName + ")";
}

std::string spell(const Mesh &mesh) {
  return std::to_string(mesh.nodes) + " nodes x " +
         std::to_string(mesh.locals) + " ranks";
}

std::string spell(const Place &place) {
  return "(node " + std::to_string(place.node) + ", local " +
         std::to_string(place.local) + ")";
}

std::vector<std::string> keysOf(const char *folder, uint32_t ranks) {
  std::vector<std::string> keys;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    keys.push_back(key(folder, rank));
  return keys;
}

void waitToPoll(uint32_t ranks) {
  std::this_thread::sleep_for(pollTime * std::max(1u, ranks / ranksOfPollTime));
}

void append(std::string &list, const std::string &item) {
  list += (list.empty() ? "" : ", ") + item;
}

/// Returns a message that names the ranks whose value differs from the first
/// one's, or "".
std::string
checkEqual(const std::vector<JoinRecord> &records, const std::string &what,
           const std::string &hint,
           const std::function<std::string(const JoinRecord &)> &value) {
  std::string differing;
  for (const JoinRecord &record : records)
    if (value(record) != value(records[0]))
      append(differing, spell(record) + " has '" + value(record) + "'");
  if (differing.empty())
    return "";
  return "the ranks differ in " + what + ": " + spell(records[0]) + " has '" +
         value(records[0]) + "', " + differing + "; " + hint;
}

std::string checkMesh(const std::vector<JoinRecord> &records) {
  const Mesh &mesh = records[0].mesh;
  if (mesh.size() != records[0].launcherSize)
    return "the step was compiled for " + spell(mesh) + " = " +
           std::to_string(mesh.size()) + " ranks, but the launcher started " +
           std::to_string(records[0].launcherSize);
  std::vector<const JoinRecord *> owners(mesh.size());
  for (const JoinRecord &record : records) {
    const Place &place = record.place;
    if (place.node >= mesh.nodes || place.local >= mesh.locals)
      return spell(record) + " is at " + spell(place) +
             ", which is outside the mesh of " + spell(mesh) +
             " that the step was compiled for";
    const JoinRecord *&owner = owners[worldRank(mesh, place)];
    if (owner)
      return spell(*owner) + " and " + spell(record) + " are both at " +
             spell(place);
    owner = &record;
  }
  return "";
}

bool isLoopback(const std::string &address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

std::string checkAddresses(const std::vector<JoinRecord> &records) {
  bool oneHost = true;
  for (const JoinRecord &record : records)
    oneHost &= record.hostName == records[0].hostName;
  for (const JoinRecord &record : records)
    if (!oneHost && isLoopback(record.address))
      return spell(record) + " would listen on " + record.address +
             ", where other hosts cannot reach it; set MASTER_ADDR to an "
             "address instead of a name, or name the network interface";
  return "";
}

/// Ends the meeting for all ranks. The others find the reason in the store.
[[noreturn]] void abortMeeting(KeyValueStore &store, const JoinRecord &own,
                               const std::string &message) {
  try {
    store.set(abortedKey, message);
    store.set(key("left", own.launcherRank), "");
    const Clock::time_point end = Clock::now() + lingerTime;
    const std::vector<std::string> left = keysOf("left", own.launcherSize);
    auto haveAllLeft = [&] {
      for (const auto &value : store.find(left))
        if (!value)
          return false;
      return true;
    };
    while (own.servesStore && !haveAllLeft() && Clock::now() < end)
      waitToPoll(own.launcherSize);
  } catch (const StoreError &) {
    // The original error matters more than the end of the store.
  }
  throw std::runtime_error(message);
}

/// Returns the records of all ranks after they have published them. Throws
/// otherwise.
std::vector<JoinRecord> waitForAll(KeyValueStore &store, const JoinRecord &own,
                                   double seconds) {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::milliseconds(int64_t(seconds * 1000));
  const uint32_t ranks = own.launcherSize;
  std::vector<std::string> keys = keysOf("join", ranks);
  keys.push_back(abortedKey);
  for (;;) {
    const std::vector<std::optional<std::string>> found = store.find(keys);
    std::vector<JoinRecord> records;
    std::string missing;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      if (found[rank])
        records.push_back(decode(*found[rank]));
      else
        append(missing, std::to_string(rank));
    if (missing.empty())
      return records;
    if (found[ranks])
      abortMeeting(store, own, *found[ranks]);
    if (Clock::now() >= deadline) {
      std::ostringstream text;
      text << "launcher ranks " << missing << " of " << ranks
           << " did not join within " << seconds << " s";
      abortMeeting(store, own, text.str());
    }
    waitToPoll(ranks);
  }
}

} // namespace

std::string encode(const JoinRecord &record) {
  std::ostringstream text;
  text << record.launcherRank << ' ' << record.launcherSize << ' '
       << record.mesh.nodes << ' ' << record.mesh.locals << ' '
       << record.place.node << ' ' << record.place.local << ' ' << record.abi
       << ' ' << record.servesStore << '\n'
       << record.planHash << '\n'
       << record.hostName << '\n'
       << record.address << '\n';
  return text.str();
}

JoinRecord decode(const std::string &text) {
  std::istringstream in(text);
  JoinRecord record;
  in >> record.launcherRank >> record.launcherSize >> record.mesh.nodes >>
      record.mesh.locals >> record.place.node >> record.place.local >>
      record.abi >> record.servesStore;
  in.get(); // the end of the line
  std::getline(in, record.planHash);
  std::getline(in, record.hostName);
  std::getline(in, record.address);
  if (!in)
    throw std::runtime_error("another program writes to the job's store");
  return record;
}

std::string checkRecords(const std::vector<JoinRecord> &records) {
  const char *sameStep = "all ranks must run the same compiled step";
  std::string error =
      checkEqual(records, "the version of the runtime's ABI", sameStep,
                 [](const JoinRecord &r) { return std::to_string(r.abi); });
  if (error.empty())
    error = checkEqual(records, "the plan's hash", sameStep,
                       [](const JoinRecord &r) { return r.planHash; });
  if (error.empty())
    error = checkEqual(records, "the mesh", sameStep,
                       [](const JoinRecord &r) { return spell(r.mesh); });
  if (error.empty())
    error = checkEqual(
        records, "the number of ranks", "they belong to different launches",
        [](const JoinRecord &r) { return std::to_string(r.launcherSize); });
  if (error.empty())
    error = checkMesh(records);
  return error.empty() ? checkAddresses(records) : error;
}

std::vector<JoinRecord> meet(KeyValueStore &store, const JoinRecord &own,
                             double seconds) {
  store.set(key("join", own.launcherRank), encode(own));
  std::vector<JoinRecord> records = waitForAll(store, own, seconds);
  std::string error = checkRecords(records);
  if (!error.empty())
    abortMeeting(store, own, error);
  std::vector<JoinRecord> ordered(records.size());
  for (const JoinRecord &record : records)
    ordered[worldRank(record.mesh, record.place)] = record;
  return ordered;
}

} // namespace fcdp
