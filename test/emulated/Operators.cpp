// SPDX-License-Identifier: Apache-2.0
//
// Any operator on CUDA tensors. Results have the shapes that PyTorch's meta
// kernels give, and memory from the current allocator; their values come from
// the CPU's kernel when the stream reaches it.

#include "EmulatedTorch.h"
#include "fake/Machine.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <torch/library.h>

namespace fcdp::emulated {
namespace {

using c10::IValue;
using fake::Machine;
using torch::jit::Stack;

/// Applies `change` to all tensors of a value and makes devices `device`.
/// Generators are left out, as there is one for all devices.
template <typename Change>
IValue convert(const IValue &value, c10::Device device, const Change &change) {
  if (value.isTensor())
    return value.toTensor().defined() ? change(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorVector())
      list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto &tensor : value.toOptionalTensorVector())
      list.push_back(tensor && tensor->defined()
                         ? std::optional(change(*tensor))
                         : std::nullopt);
    return list;
  }
  if (value.isDevice())
    return device;
  return value.isGenerator() ? IValue() : value;
}

template <typename Change>
Stack convertAll(const Stack &arguments, c10::Device device, Change change) {
  Stack converted;
  for (const IValue &value : arguments)
    converted.push_back(convert(value, device, change));
  return converted;
}

/// A tensor without memory, with the same place in its storage.
at::Tensor withoutMemory(const at::Tensor &tensor) {
  if (!tensor.is_cuda())
    return tensor;
  auto elements =
      int64_t(tensor.storage().nbytes() / size_t(tensor.element_size()));
  return at::empty({elements}, tensor.options().device(at::kMeta))
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

/// A tensor of zeros of the same shape and order.
at::Tensor withZeros(const at::Tensor &tensor) {
  if (!tensor.is_cuda())
    return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kCPU))
      .zero_();
}

/// Values that exist when the stream reaches the operator. Tensors of the host
/// are numbers, which CUDA kernels take by value, too.
class Arguments {
public:
  explicit Arguments(const Stack &given) {
    arguments = convertAll(given, at::kCPU, [&](const at::Tensor &tensor) {
      if (tensor.is_cuda()) {
        views.emplace_back(tensor);
        return at::Tensor(at::empty({0}));
      }
      TORCH_CHECK(tensor.dim() == 0,
                  "Expected all tensors to be on the same "
                  "device, but found one on cpu, of shape ",
                  tensor.sizes());
      views.emplace_back(std::nullopt);
      at::Tensor copy = tensor.clone();
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
        copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      return copy;
    });
  }
  Stack onHost() const {
    size_t next = 0;
    return convertAll(arguments, at::kCPU, [&](const at::Tensor &tensor) {
      const auto &view = views[next++];
      return view ? view->onHost() : tensor;
    });
  }

private:
  Stack arguments;
  std::vector<std::optional<DeviceView>> views;
};

/// Returns the results of the operator without their values.
Stack inferResults(const c10::OperatorHandle &op, const Stack &arguments) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    Stack stack = convertAll(arguments, at::kMeta, withoutMemory);
    op.callBoxed(stack);
    return stack;
  }
  // The CPU's kernel must not draw the random numbers of queued work.
  std::lock_guard<std::recursive_mutex> lock(fake::Machine::instance().mutex);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor random = generator.get_state();
  Stack stack = convertAll(arguments, at::kCPU, withZeros);
  op.callBoxed(stack);
  generator.set_state(random);
  return stack;
}

/// Returns whether the shapes of results depend on values.
bool dependsOnValues(const c10::OperatorHandle &op, const Stack &arguments) {
  const std::string &name = op.schema().name();
  if (name != "aten::index")
    return op.hasTag(at::Tag::dynamic_output_shape);
  for (const auto &index : arguments[1].toOptionalTensorVector())
    if (index && index->defined() &&
        (index->scalar_type() == at::kBool ||
         index->scalar_type() == at::kByte))
      return true;
  return false;
}

/// Returns the argument that a result aliases, or null.
const IValue *findAliased(const c10::FunctionSchema &schema,
                          const c10::Argument &result, const Stack &arguments) {
  if (!result.alias_info())
    return nullptr;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto *info = schema.arguments()[i].alias_info();
    if (info && info->beforeSets() == result.alias_info()->beforeSets())
      return &arguments[i];
  }
  return nullptr;
}

/// A result that has memory of its own, by its place among the results. A list
/// has one view for each of its tensors.
struct Fresh {
  size_t result;
  std::vector<DeviceView> views;
};

IValue makeFresh(const IValue &like, size_t result, std::vector<Fresh> &fresh) {
  std::vector<DeviceView> views;
  IValue made = convert(like, at::kCUDA, [&](const at::Tensor &tensor) {
    at::Tensor own = makeLike(tensor);
    views.emplace_back(own);
    return own;
  });
  fresh.push_back({result, std::move(views)});
  return made;
}

IValue makeView(const IValue &like, const at::Tensor &base) {
  return convert(like, at::kCUDA, [&](const at::Tensor &tensor) {
    auto view = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(),
        tensor.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(
        tensor.sizes(), tensor.strides(), tensor.storage_offset());
    return view;
  });
}

void store(const IValue &value, const std::vector<DeviceView> &places) {
  if (places.empty())
    return;
  if (value.isTensor()) {
    places[0].onHost().copy_(value.toTensor());
    return;
  }
  std::vector<at::Tensor> tensors = value.toTensorVector();
  for (size_t i = 0; i < tensors.size(); ++i)
    places[i].onHost().copy_(tensors[i]);
}

/// Runs an operator whose shapes depend on values, for which the host waits, as
/// it does with CUDA.
void runAtOnce(const c10::OperatorHandle &op, Stack &stack) {
  Arguments arguments(stack);
  Stack results;
  enqueue([&] {
    results = arguments.onHost();
    op.callBoxed(results);
  });
  synchronizeStream();
  std::vector<Fresh> fresh;
  stack.clear();
  for (size_t i = 0; i < results.size(); ++i)
    stack.push_back(makeFresh(results[i], i, fresh));
  enqueue([results = std::move(results), fresh = std::move(fresh)] {
    for (const Fresh &one : fresh)
      store(results[one.result], one.views);
  });
}

/// Gives results that are passed as empty tensors their shapes and memory.
void resizeResults(const c10::OperatorHandle &op, const Stack &arguments) {
  const auto &declared = op.schema().arguments();
  std::vector<at::Tensor> empty;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (declared[i].is_out() && arguments[i].isTensor() &&
        arguments[i].toTensor().numel() == 0)
      empty.push_back(arguments[i].toTensor());
  if (empty.empty())
    return;
  Stack inferred = inferResults(op, arguments);
  TORCH_CHECK(empty.size() == 1 && inferred.size() == 1, op.schema().name(),
              ": several results without a size are not emulated");
  at::Tensor made = makeLike(inferred[0].toTensor());
  c10::TensorImpl *impl = empty[0].unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(made.storage());
  impl->set_sizes_and_strides(made.sizes(), made.strides());
}

/// Has the operator take and overwrite memory that it returns at once, as
/// kernels do with temporary memory. It comes in blocks, so that they fill the
/// gaps between what is in use.
void overwriteScratch() {
  static const size_t bytes = scratchBytes();
  constexpr size_t block = 16 << 10;
  std::vector<c10::DataPtr> taken;
  for (size_t have = 0; have < bytes; have += block) {
    taken.push_back(currentAllocator()->allocate(block));
    enqueue([address = taken.back().get()] {
      std::byte *storage = Machine::instance().translate(address, block);
      TORCH_CHECK(storage, "temporary memory is not memory of the device");
      // The bytes of NaN in all floating types.
      std::fill(storage, storage + block, std::byte(0xff));
    });
  }
}

double countBytes(const IValue &value) {
  double bytes = 0;
  convert(value, at::kCUDA, [&](const at::Tensor &tensor) {
    bytes += tensor.is_cuda() ? double(tensor.nbytes()) : 0;
    return tensor;
  });
  return bytes;
}

/// Returns the name of a type of products, or "" for others.
const char *nameOfType(at::ScalarType type) {
  switch (type) {
  case at::kDouble:
    return "f64";
  case at::kFloat:
    return "f32";
  case at::kBFloat16:
    return "bf16";
  case at::kHalf:
    return "f16";
  default:
    return "";
  }
}

/// Returns how long an operator takes on the device. `results` are its results,
/// whose memory counts like the memory of its arguments.
double secondsOf(const c10::OperatorHandle &op, const Stack &arguments,
                 const Stack &results) {
  std::lock_guard<std::recursive_mutex> lock(fake::Machine::instance().mutex);
  auto &speed = fake::Machine::instance().speed;
  if (!speed)
    return 0;
  double bytes = 0;
  for (const Stack *values : {&arguments, &results})
    for (const IValue &value : *values)
      bytes += countBytes(value);
  const std::string &name = op.schema().name();
  if (name != "aten::mm" && name != "aten::bmm")
    return speed->first(name) + speed->kernel(bytes);
  const at::Tensor &left = arguments[0].toTensor(),
                   &right = arguments[1].toTensor();
  std::string type = nameOfType(left.scalar_type());
  TORCH_CHECK(!speed->lacks(type),
              "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when multiplying ", type,
              "\nthe second line of a long message");
  double flops = 2.0 * double(left.numel()) * double(right.size(-1));
  return speed->first(name + type) + speed->product(type, flops, bytes);
}

void runOnStream(const c10::OperatorHandle &op, Stack *given) {
  const auto &returns = op.schema().returns();
  Stack arguments =
      torch::jit::last(*given, op.schema().arguments().size()).vec();
  torch::jit::drop(*given, arguments.size());
  if (dependsOnValues(op, arguments)) {
    runAtOnce(op, arguments);
    given->insert(given->end(), arguments.begin(), arguments.end());
    return;
  }
  bool isInPlace = std::all_of(
      returns.begin(), returns.end(), [](const c10::Argument &result) {
        return result.alias_info() && result.alias_info()->isWrite();
      });
  Stack inferred;
  if (isInPlace)
    resizeResults(op, arguments);
  else
    inferred = inferResults(op, arguments);
  std::vector<Fresh> fresh;
  bool isView = !returns.empty();
  for (size_t i = 0; i < returns.size(); ++i) {
    const IValue *aliased = findAliased(op.schema(), returns[i], arguments);
    isView &= aliased && !returns[i].alias_info()->isWrite();
    if (!aliased)
      given->push_back(makeFresh(inferred[i], i, fresh));
    else if (returns[i].alias_info()->isWrite())
      given->push_back(*aliased);
    else
      given->push_back(makeView(inferred[i], aliased->toTensor()));
  }
  if (isView)
    return;
  beforeLaunch(op);
  overwriteScratch();
  double seconds = secondsOf(
      op, arguments,
      inferred.empty() ? Stack()
                       : torch::jit::last(*given, returns.size()).vec());
  enqueue(
      [op, seed = reserveRandomNumbers(op), arguments = Arguments(arguments),
       fresh = std::move(fresh)] {
        if (seed)
          at::Generator(at::detail::getDefaultCPUGenerator())
              .set_current_seed(*seed);
        Stack stack = arguments.onHost();
        op.callBoxed(stack);
        for (const Fresh &one : fresh)
          store(stack[one.result], one.views);
      },
      seconds);
}

/// Operators that have one kernel for all devices, which does what depends on
/// the device.
constexpr const char *kByDevice[] = {"aten::convolution",
                                     "aten::convolution_backward"};

bool hasKernelOfCpu(const c10::OperatorHandle &op) {
  for (const char *name : kByDevice)
    if (op.schema().name() == name && op.schema().overload_name().empty())
      return true;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&runOnStream>());
}

/// A fallback gives way to kernels that are composed of other operators. If the
/// CPU has a kernel of its own, these would have other bits.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  auto &dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0)
      continue;
    auto op = dispatcher.findSchema(name);
    if (!op || !hasKernelOfCpu(*op) || keepsKernel(*op))
      continue;
    std::string full = name.name.substr(std::string("aten::").size());
    if (!name.overload_name.empty())
      full += "." + name.overload_name;
    library.impl(full.c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&runOnStream>());
  }
}

} // namespace
} // namespace fcdp::emulated
