// SPDX-License-Identifier: Apache-2.0
//
// Sets and returns the values of a session's states.
#include "files/ReplacedFile.h"
#include "session/SessionImpl.h"
#include "state/StateRows.h"
#include "transports/Transport.h"

namespace fcdp {

namespace {

[[noreturn]] void misuse(const std::string &message) {
  throw SessionError(SessionErrorCode::Misuse, message);
}

} // namespace

void Session::Impl::saveWeights(const ParameterOutput &output) {
  saveParameters(
      plan, output, job->rank() == 0,
      [&](size_t bucket) { return gatherShards(plan, *job, *step, bucket); },
      [&](size_t buffer) { return step->buffer(buffer); });
}

std::optional<std::string> Session::saveWeights(const ParameterOutput &output) {
  std::optional<std::string> result;
  impl->attemptTogether(SessionErrorCode::FileFailed, [&] {
    std::optional<SessionError> first;
    for (size_t i = 0; i <= output.elsewhere.size(); ++i) {
      ParameterOutput place =
          i == 0 ? output : moveTo(output, output.elsewhere[i - 1]);
      bool failed = false;
      try {
        impl->saveWeights(place);
      } catch (const TransportError &) {
        throw;
      } catch (const UnnamedFileError &error) {
        result = error.what();
      } catch (const std::exception &error) {
        failed = true;
        if (!first)
          first.emplace(SessionErrorCode::FileFailed, error.what());
      }
      if (!impl->isAnywhere(failed, "end of writing the parameters")) {
        if (first && !result)
          result = std::string(first->what()) + "; they are in " + place.path +
                   " instead";
        return;
      }
    }
    impl->agree(first, "writing the parameters");
  });
  return result;
}

void Session::setState(const std::string &name, plan::StateRole role,
                       const TensorView &value) {
  impl->requireLoading("setting a state");
  NamedState state = findState(impl->plan, name, role);
  if (value.dtype != state.dtype || value.shape != state.shape)
    misuse("'" + name + "': expected " + fcdp::name(state.dtype) +
           toString(state.shape) + ", got " + fcdp::name(value.dtype) +
           toString(value.shape));
  if (!value.data && state.bytes() != 0)
    misuse("'" + name + "': expected data, got a null pointer");
  impl->attempt(SessionErrorCode::Failed, [&] {
    impl->noteValue(name, std::to_string(int(role)),
                    {value.data, state.bytes()});
    scatterState(impl->plan, place(), *impl->step, state, value.data);
  });
}

void Session::getState(const std::string &name, plan::StateRole role,
                       std::span<std::byte> out) {
  impl->requireOpen();
  NamedState state = findState(impl->plan, name, role);
  if (rank() == 0 && out.size() != state.bytes())
    misuse("'" + name + "': expected room for " +
           std::to_string(state.bytes()) + " bytes, got " +
           std::to_string(out.size()));
  if (rank() == 0 && !out.data() && !out.empty())
    misuse("'" + name + "': expected room for data, got a null pointer");
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    gatherState(impl->plan, *impl->job, *impl->step, state, out.data());
  });
}

size_t Session::numOwnElements(const std::string &name, plan::StateRole role) {
  NamedState state = findState(impl->plan, name, role);
  return state.parameter
             ? size_t(rowsOf(state.shape, rank(), impl->plan.mesh.size()).count)
             : size_t(numElements(state.shape));
}

void Session::getRows(const std::string &name, plan::StateRole role,
                      std::span<std::byte> out) {
  impl->requireOpen();
  NamedState state = findState(impl->plan, name, role);
  size_t bytes = numOwnElements(name, role) * byteSize(state.dtype);
  if (out.size() != bytes)
    misuse("'" + name + "': expected room for " + std::to_string(bytes) +
           " bytes, got " + std::to_string(out.size()));
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    gatherRows(impl->plan, *impl->job, *impl->step, state, out.data());
  });
}

void Session::setRows(const std::string &name, plan::StateRole role,
                      const TensorView &value) {
  impl->requireLoading("setting a state");
  NamedState state = findState(impl->plan, name, role);
  Shape shape = state.shape;
  if (state.parameter && !shape.empty())
    shape[0] = numRowsOf(shape, rank(), impl->plan.mesh.size());
  if (value.dtype != state.dtype || value.shape != shape)
    misuse("'" + name + "': expected " + fcdp::name(state.dtype) +
           toString(shape) + " on rank " + std::to_string(rank()) + ", got " +
           fcdp::name(value.dtype) + toString(value.shape));
  if (!value.data && numElements(shape) != 0)
    misuse("'" + name + "': expected data, got a null pointer");
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    scatterRows(impl->plan, *impl->job, *impl->step, state, value.data);
  });
}

void Session::agree(const std::string &problem, const std::string &values) {
  impl->requireLoading("setting states");
  impl->attemptTogether(SessionErrorCode::Failed, [&] {
    std::string text;
    std::vector<std::string> first;
    uint32_t rank = 0;
    for (const std::string &told :
         impl->job->exchange(encode({{"problem", problem}, {"values", values}}),
                             "check of the states that are set")) {
      const std::vector<Fact> facts = decodeFacts(told);
      first.push_back(facts.at(1).value);
      if (text.empty())
        text = facts.at(0).value;
    }
    while (text.empty() && ++rank < first.size())
      if (first[rank] != first[0])
        text = "rank " + std::to_string(rank) +
               " has other values than rank 0: seed all ranks alike, or load "
               "the same file";
    if (text.empty())
      return;
    // All ranks have issued the same operations, so none waits for another.
    impl->job->finish();
    impl->phase = Impl::Phase::Failed;
    misuse(text);
  });
}

int64_t Session::getUpdateCount(const std::string &name) {
  impl->requireOpen();
  NamedState state = findState(impl->plan, name, plan::StateRole::shard);
  int64_t count = 0;
  impl->attempt(SessionErrorCode::Failed, [&] {
    if (state.parameter)
      count = impl->step->updateCount(state.parameter->bucket);
  });
  return count;
}

void Session::setUpdateCount(const std::string &name, int64_t count) {
  impl->requireLoading("setting an update count");
  NamedState state = findState(impl->plan, name, plan::StateRole::shard);
  if (!state.parameter || count < 0)
    misuse("'" + name + "': expected a parameter and a count of at least 0");
  const uint32_t bucket = state.parameter->bucket;
  auto [set, isNew] = impl->updatesSet.emplace(bucket, std::pair(name, count));
  if (!isNew && set->second.second != count && set->second.first != name)
    misuse("'" + name + "': expected " + std::to_string(set->second.second) +
           " updates, as its bucket '" + impl->plan.buckets[bucket]->name +
           "' has one count, which was set for '" + set->second.first +
           "', got " + std::to_string(count));
  set->second = {name, count};
  impl->attempt(SessionErrorCode::Failed,
                [&] { impl->step->setUpdateCount(bucket, count); });
}

} // namespace fcdp
