// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the readers of plans:
//   build-asan/bin/fcdp-fuzz-plan NEW test/fuzz/corpus/plan
//
// Inputs are plans in their FlatBuffers form, whose constants are empty
// (make_plan_seeds.py). The mutator changes one number of a plan, and sometimes
// the plan's own bytes. Checked, besides the sanitizers:
// a plan that is refused gives an error that says so, and in a plan that is
// taken every operation can be looked at without a check.

#include "plan/PlanCheck.h"
#include "plan/PlanReader.h"

#include "flatbuffers/minireflect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

using namespace fcdp;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// The runtime takes it from libtorch.
std::string fcdp::hashBytes(std::span<const std::byte> bytes) {
  auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  return llvm::toHex(llvm::SHA1::hash(llvm::ArrayRef(data, bytes.size())),
                     /*LowerCase=*/true);
}

namespace {

[[noreturn]] void die(const std::string &what) {
  std::cerr << what << '\n';
  std::abort();
}

/// The bytes of a plan as they are in an object: aligned.
class AlignedBytes {
public:
  AlignedBytes(const uint8_t *data, size_t size)
      : words(size / sizeof(uint64_t) + 1), size(size) {
    if (size != 0)
      std::memcpy(words.data(), data, size);
  }
  std::span<const std::byte> get() const {
    return std::as_bytes(std::span(words)).first(size);
  }

private:
  std::vector<uint64_t> words;
  size_t size;
};

/// Uses the indices and regions of an operation as the runtime does.
class Touch {
public:
  explicit Touch(const StepPlan &plan) : plan(plan) {}

  template <typename Op>
  void operator()(const Op &op) const {
    if constexpr (requires { op.in; })
      region(op.in);
    if constexpr (requires { op.out; })
      region(op.out);
    if constexpr (requires { op.slot; })
      slot(op.slot);
    if constexpr (requires { op.free; })
      for (uint32_t index : op.free)
        slot(index);
    if constexpr (requires { op.args; })
      for (const auto &argument : op.args)
        for (int32_t index : argument->slots)
          if (index != -1)
            slot(index);
    if constexpr (requires { op.event; })
      if (op.event >= plan.numEvents)
        die("an event is out of range");
  }

private:
  void slot(size_t index) const {
    const plan::SlotT &slot = *plan.slots.at(index);
    if (slot.kind == plan::SlotKind::planned)
      region(*slot.buf);
    else if (slot.kind == plan::SlotKind::input)
      plan.inputs.at(*slot.index);
    else if (slot.kind == plan::SlotKind::buffer)
      plan.buffers.at(*slot.index);
  }
  void region(const plan::Buf &buf) const {
    Place last{plan.mesh.nodes - 1, plan.mesh.locals - 1};
    bool isDevice = buf.arena() == plan::Arena::device;
    if (offsetOn(buf, last) + buf.bytes() >
        (isDevice ? plan.deviceBytes : plan.hostBytes))
      die("a region leaves its arena");
  }

  const StepPlan &plan;
};

/// Collects the numbers of a plan.
class Numbers final : public flatbuffers::IterationVisitor {
public:
  struct Number {
    const uint8_t *at;
    size_t size;
  };
  std::vector<Number> all;

  void Field(size_t, size_t, flatbuffers::ElementaryType type, bool isVector,
             const flatbuffers::TypeTable *, const char *,
             const uint8_t *value) override {
    if (value && !isVector)
      add(type, value);
  }
  void Element(size_t, flatbuffers::ElementaryType type,
               const flatbuffers::TypeTable *, const uint8_t *value) override {
    add(type, value);
  }

private:
  void add(flatbuffers::ElementaryType type, const uint8_t *value) {
    if (type != flatbuffers::ET_SEQUENCE && type != flatbuffers::ET_STRING)
      all.push_back({value, flatbuffers::InlineSize(type, nullptr)});
  }
};

/// Returns whether the values of a plan can be visited.
bool canBeVisited(std::span<const std::byte> bytes) {
  try {
    verifyPlan(bytes);
    return true;
  } catch (const std::runtime_error &) {
    return false;
  }
}

/// Changes one number of a plan to one that means something to it.
void changeNumber(uint8_t *data, const Numbers::Number &number,
                  const std::vector<Numbers::Number> &all,
                  std::minstd_rand &random) {
  auto read = [](const Numbers::Number &from) {
    uint64_t value = 0;
    std::memcpy(&value, from.at, from.size);
    return value;
  };
  uint64_t value = read(number);
  switch (random() % 6) {
  case 0:
    value += 1;
    break;
  case 1:
    value -= 1;
    break;
  case 2:
    value = 0;
    break;
  case 3:
    value = ~uint64_t(0) >> random() % 64;
    break;
  case 4:
    value ^= uint64_t(1) << random() % (8 * number.size);
    break;
  default:
    value = read(all[random() % all.size()]);
  }
  std::memcpy(data, &value, number.size);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  AlignedBytes bytes(data, size);
  StepPlan plan;
  try {
    plan = loadPlan(bytes.get(), hashBytes(bytes.get()), {});
  } catch (const std::runtime_error &error) {
    if (!std::string_view(error.what()).starts_with("plan"))
      die(std::string("the error names no field: ") + error.what());
    return 0;
  }
  for (const auto &function : plan.functions)
    for (size_t op = function->first; op < function->end; ++op)
      plan::visit(plan.ops.at(op)->body, Touch(plan));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::minstd_rand random(seed);
  AlignedBytes bytes(data, size);
  auto *begin = reinterpret_cast<const uint8_t *>(bytes.get().data());
  if (random() % 8 == 0 || !canBeVisited(bytes.get()))
    return LLVMFuzzerMutate(data, size, maxSize);
  Numbers numbers;
  flatbuffers::IterateFlatBuffer(begin, plan::PlanTypeTable(), &numbers);
  const Numbers::Number &number = numbers.all[random() % numbers.all.size()];
  changeNumber(data + (number.at - begin), number, numbers.all, random);
  return size;
}
