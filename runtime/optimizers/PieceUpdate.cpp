// SPDX-License-Identifier: Apache-2.0
#include "optimizers/PieceUpdate.h"

#include <ATen/ops/empty.h>

namespace fcdp {

at::Tensor cutState(const at::Tensor &state, int64_t all, int64_t begin,
                    int64_t elements) {
  int64_t block = state.numel() == 0 ? 1 : all / state.numel();
  return state.narrow(0, begin / block, elements / block);
}

PieceMemory::PieceMemory(at::Device device) : device(device) {}

int64_t PieceMemory::elements() const {
  return pieceElements(device.is_cpu() ? 1 << 16 : 1 << 20);
}

at::Tensor PieceMemory::row(at::ScalarType type, size_t index) {
  std::vector<at::Tensor> &made = rows[type];
  while (made.size() <= index)
    made.push_back(
        at::empty({elements()}, at::TensorOptions(type).device(device)));
  return made[index];
}

PieceUpdate::PieceUpdate(const UpdatePart &part, bool isWidened,
                         size_t numMemories, PieceMemory &memory)
    : pieceSize(memory.elements()) {
  size_t used = 0;
  auto take = [&](at::ScalarType type) { return memory.row(type, used++); };
  if (isWidened) {
    wide = {take(at::kFloat), take(at::kFloat)};
    for (const at::Tensor &state : part.states)
      wide.push_back(at::isReducedFloatingType(state.scalar_type())
                         ? take(at::kFloat)
                         : at::Tensor());
  }
  at::ScalarType type = isWidened ? at::kFloat : part.parameter.scalar_type();
  for (size_t i = 0; i < numMemories; ++i)
    memories.push_back(take(type));
}

UpdatePart PieceUpdate::cut(const UpdatePart &part, int64_t begin,
                            int64_t elements) const {
  UpdatePart piece;
  piece.segment = part.segment;
  piece.segment.begin += begin;
  piece.segment.elements = elements;
  piece.parameter = part.parameter.narrow(0, begin, elements);
  piece.grad = part.grad.narrow(0, begin, elements);
  for (const at::Tensor &state : part.states)
    piece.states.push_back(
        cutState(state, part.segment.elements, begin, elements));
  for (const at::Tensor &memory : memories)
    piece.memories.push_back(memory.narrow(0, 0, elements));
  return piece;
}

UpdatePart PieceUpdate::widen(const UpdatePart &piece) const {
  auto copy = [&](at::Tensor memory, const at::Tensor &narrow) {
    return memory.narrow(0, 0, piece.segment.elements).copy_(narrow);
  };
  UpdatePart widened = piece;
  widened.parameter = copy(wide[0], piece.parameter);
  widened.grad = copy(wide[1], piece.grad);
  for (size_t i = 0; i < piece.states.size(); ++i)
    if (wide[2 + i].defined())
      widened.states[i] = copy(wide[2 + i], piece.states[i]);
  return widened;
}

void PieceUpdate::round(const UpdatePart &widened,
                        const UpdatePart &piece) const {
  piece.parameter.copy_(widened.parameter);
  for (size_t i = 0; i < piece.states.size(); ++i)
    if (wide[2 + i].defined())
      piece.states[i].copy_(widened.states[i]);
}

} // namespace fcdp
