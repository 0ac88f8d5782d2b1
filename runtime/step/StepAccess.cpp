// SPDX-License-Identifier: Apache-2.0
#include "step/StepImpl.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <algorithm>

namespace fcdp {

std::span<std::byte> Step::input(size_t index) {
  if (!impl->isOnCpu())
    return impl->hostCopies.input(impl->filling, index);
  return bytesOf(impl->state.inputs[index]);
}

std::span<std::byte> Step::buffer(size_t index) {
  const at::Tensor &buffer = impl->state.buffers[index];
  StreamScope streamScope(impl->computeStream);
  return impl->isOnCpu() ? bytesOf(buffer) : impl->hostCopies.of(buffer);
}

std::span<std::byte> Step::shard(size_t bucket) {
  return region(
      findState(*impl->state.plan.buckets[bucket], plan::StateRole::shard)
          ->buf());
}

std::span<std::byte> Step::master(size_t bucket) {
  return region(
      findState(*impl->state.plan.buckets[bucket], plan::StateRole::master)
          ->buf());
}

void Step::keepStates(plan::StateRole role) { impl->kept.insert(role); }

std::span<std::byte> Step::region(const plan::Buf &buf) {
  StepState &state = impl->state;
  if (buf.arena() == plan::Arena::file)
    return impl->fileCopy.of(buf);
  if (impl->isOnCpu() || buf.arena() != plan::Arena::device)
    return {state.address(buf), buf.bytes()};
  StreamScope streamScope(impl->computeStream);
  return impl->hostCopies.of(state.flat(buf, int64_t(buf.bytes()), DType::U8));
}

void Step::writeRegion(const plan::Buf &buf, uint64_t offset,
                       std::span<const std::byte> from) {
  if (buf.arena() != plan::Arena::file) {
    std::copy(from.begin(), from.end(), region(buf).begin() + offset);
    return;
  }
  impl->fileCopy.end();
  impl->state.files->writeBytes(buf.offset() + offset, from);
}

void Step::copyRegion(const plan::Buf &buf, uint64_t offset,
                      std::span<std::byte> out) {
  StepState &state = impl->state;
  if (buf.arena() == plan::Arena::file)
    return state.files->readBytes(buf.offset() + offset, out);
  const std::byte *from = state.address(buf) + offset;
  if (impl->isOnCpu() || buf.arena() != plan::Arena::device) {
    std::copy(from, from + out.size(), out.begin());
    return;
  }
  StreamScope streamScope(impl->computeStream);
  auto bytes = int64_t(out.size());
  tensorOver(out.data(), {bytes}, DType::U8, at::kCPU)
      .copy_(tensorOver(state.address(buf) + offset, {bytes}, DType::U8,
                        state.device));
}

bool Step::transfersByThreads() const {
  return impl->state.files && !impl->state.files->usesRings();
}

std::vector<std::byte> Step::randomState() const {
  at::Generator generator =
      at::globalContext().defaultGenerator(impl->state.device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  at::Tensor random = generator.get_state();
  std::span<std::byte> bytes = bytesOf(random);
  return {bytes.begin(), bytes.end()};
}

void Step::setRandomState(std::span<const std::byte> random) {
  at::Tensor value = at::empty({int64_t(random.size())}, at::kByte);
  std::copy(random.begin(), random.end(), bytesOf(value).begin());
  at::Generator generator =
      at::globalContext().defaultGenerator(impl->state.device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(value);
}

void Step::seedRandom(uint64_t seed) { at::manual_seed(seed); }

int64_t Step::updateCount(size_t bucket) const {
  return impl->state.updates[bucket].number;
}

void Step::setUpdateCount(size_t bucket, int64_t count) {
  UpdateState &update = impl->state.updates[bucket];
  StreamScope streamScope(impl->computeStream);
  update.count.fill_(float(count));
  update.number = count;
}

void Step::setLearningRate(double rate) { impl->state.learningRate = rate; }

void Step::setLossScale(float scale, bool skipsOverflow) {
  StepState &state = impl->state;
  StreamScope streamScope(impl->computeStream);
  state.lossScale.fill_(scale);
  state.lossScaleNumber = scale;
  state.skipsOverflow = skipsOverflow;
}

void Step::setLossWeight(float factor) {
  StepState &state = impl->state;
  StreamScope streamScope(impl->computeStream);
  state.lossWeight.fill_(factor);
  state.lossWeightNumber = factor;
}

} // namespace fcdp
