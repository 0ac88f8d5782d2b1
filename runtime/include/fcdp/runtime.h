/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbols that a compiled training step exports.
 *
 * fcdp-compile emits a shared object with these symbols:
 *
 *   const uint32_t      fcdp_abi_version      == FCDP_ABI_VERSION
 *   const unsigned char fcdp_plan[]           the plan, FlatBuffers of
 *                                             runtime/plan/Plan.fbs, 64-byte
 *                                             aligned
 *   const uint64_t      fcdp_plan_size        bytes
 *   const char          fcdp_plan_hash[40]    SHA-1 of fcdp_plan in lower-case
 *                                             hex digits, without a zero
 *   const unsigned char fcdp_constants[]      constants of the graph, 64-byte
 *                                             aligned, at offsets of the plan
 *   const uint64_t      fcdp_constants_size   bytes
 *
 * The runtime executes the operations of the plan. An object has code only if
 * its plan has kernels. Each is a function of the type FcdpKernel under two
 * symbols, fcdp_kernel_NAME_v3 for processors of the level x86-64-v3, and
 * fcdp_kernel_NAME_v4 for those of x86-64-v4. Both compute the same bits. They
 * call nothing and access no memory besides their arguments'.
 *
 * The file ends with FCDP_OBJECT_SEAL and the SHA-1 of all bytes before that,
 * in 40 lower-case hex digits. A file whose seal is missing or wrong is not
 * loaded. fcdp-compile seals a shared object that was linked by hand:
 * fcdp-compile linked.so -o step.so
 */
#ifndef FCDP_RUNTIME_H
#define FCDP_RUNTIME_H

/* Changes with this list and with every change of the plan's schema. */
#define FCDP_ABI_VERSION 23u

/* Computes elements [begin, end) of the results from the operands. `tensors`
 * has the operands' memory, and after it the results'. If an operand has the
 * map `row` or `column`, tensors are seen as rows of `width` elements, and the
 * rows [begin, end) are computed. */
typedef void (*FcdpKernel)(void *const *tensors, long long begin, long long end,
                           long long width);

/* Eight bytes, the first of which does not occur in text. */
#define FCDP_OBJECT_SEAL "\177FCDPSUM"

#endif /* FCDP_RUNTIME_H */
