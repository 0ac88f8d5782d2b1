// SPDX-License-Identifier: Apache-2.0

#include "cuda/MessageKernels.h"

#include <span>
#include <stdexcept>

namespace fcdp {

static_assert(size_t(DType::F16) == 0 && size_t(DType::BF16) == 1 &&
              size_t(DType::F32) == 2);

MessageKernels::MessageKernels(const KernelImage &image)
    : image(image), int8(find("int8")), int4(find("int4")),
      clearKernel(image.find("fcdp_clear")) {
  load(int8);
  load(int4);
  float *nothing = nullptr;
  uint64_t elements = 0;
  void *arguments[] = {&nothing, &elements};
  image.launch(clearKernel, 1, arguments, nullptr);
}

MessageKernels::OfCode MessageKernels::find(const std::string &code) const {
  OfCode kernels;
  for (size_t in = 0; in < numTypes; ++in) {
    const std::string type = code + "_" + name(DType(in));
    kernels.quantize[in] = image.find("fcdp_quantize_" + type);
    for (size_t out = 0; out < numTypes; ++out)
      kernels.sum[in][out] =
          image.find("fcdp_sum_" + type + "_" + name(DType(out)));
  }
  return kernels;
}

void MessageKernels::load(const OfCode &kernels) const {
  cuda::QuantizeArguments parts{};
  void *partArguments[] = {&parts};
  cuda::SumMessagesArguments messages{};
  void *messageArguments[] = {&messages};
  for (cudaKernel_t kernel : kernels.quantize)
    image.launch(kernel, 1, partArguments, nullptr);
  for (const auto &ofType : kernels.sum)
    for (cudaKernel_t kernel : ofType)
      image.launch(kernel, 1, messageArguments, nullptr);
}

/// Throws unless there are kernels for values of `type`.
static size_t indexOf(DType type) {
  if (type != DType::F16 && type != DType::BF16 && type != DType::F32)
    throw std::runtime_error(std::string("cannot round elements of type ") +
                             name(type));
  return size_t(type);
}

void MessageKernels::quantize(const cuda::QuantizeArguments &parts,
                              WireCode code, DType type,
                              cudaStream_t stream) const {
  if (parts.elements == 0)
    return;
  cuda::QuantizeArguments copy = parts;
  void *arguments[] = {&copy};
  // A warp has a block, which has more elements than the warp has threads.
  image.launch(kernelsOf(code).quantize[indexOf(type)],
               parts.ranks * parts.elements, arguments, stream);
}

void MessageKernels::sum(const cuda::SumMessagesArguments &messages,
                         WireCode code, DType inType, DType outType,
                         cudaStream_t stream) const {
  if (messages.elements == 0)
    return;
  cuda::SumMessagesArguments copy = messages;
  void *arguments[] = {&copy};
  image.launch(kernelsOf(code).sum[indexOf(inType)][indexOf(outType)],
               messages.elements, arguments, stream);
}

void MessageKernels::clear(float *values, uint64_t elements,
                           cudaStream_t stream) const {
  if (elements == 0)
    return;
  void *arguments[] = {&values, &elements};
  image.launch(clearKernel, elements, arguments, stream);
}

void MessageKernels::reduceScatter(const Collective &collective,
                                   DeviceGroup &group, uint64_t elements,
                                   cudaStream_t stream) const {
  const MessageSpec &spec = collective.message;
  const size_t bytes = quantizedBytes(formatOf(spec.code), elements);
  std::byte *sent = spec.memory, *received = sent + group.size() * bytes;
  quantize({collective.in, spec.residual, reinterpret_cast<uint8_t *>(sent),
            bytes, elements, group.rank(), group.size()},
           spec.code, collective.inType, stream);
  for (const PaddingRange &padding : std::span(spec.padding, spec.numPaddings))
    clear(spec.residual + padding.first, padding.elements, stream);
  group.exchangeChunks(sent, received, bytes, stream);
  const std::byte *own =
      collective.in + group.rank() * elements * byteSize(collective.inType);
  sum({own, reinterpret_cast<const uint8_t *>(received), bytes, collective.out,
       elements, group.rank(), group.size()},
      spec.code, collective.inType, collective.outType, stream);
}

} // namespace fcdp
