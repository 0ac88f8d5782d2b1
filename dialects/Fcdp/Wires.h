// SPDX-License-Identifier: Apache-2.0
//
// The forms in which values are sent between nodes (Fcdp_Wire): which
// collectives and types each is for, the sizes of its messages, and the state
// that it needs. Wires.cpp also has the functions of Fcdp.h, FcdpInterfaces.h
// and Enums.h about messages, which name no form.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Returns whether collectives of `kind` may send values in the form of `wire`.
/// `raw` is for all.
bool isFor(Wire wire, CollectiveKind kind);

/// Returns the name of a collective that sends values in the form of `wire`, in
/// profiles: "all_gather_delta".
std::string getCollectiveName(CollectiveKind kind, Wire wire);

/// Returns whether values of `type` may be sent in the form of `wire`.
bool canSend(Wire wire, mlir::Type type);

/// Returns whether devices of `target` can code and decode `wire`. Messages
/// whose sizes depend on the values are coded on CPUs only, because NCCL's
/// counts are arguments of the host.
bool canCode(Wire wire, Target target);

/// Returns the role of the state that a collective with `wire` refers to, or
/// none if it needs no state.
std::optional<StateRole> getNeededState(Wire wire);

/// Returns the bits of a message for each value, or none if they depend on the
/// values.
std::optional<double> getFixedBits(Wire wire);

/// Returns whether gathers of `bucket` could send differences if a slice of it
/// were in host memory: it is trained, and gathered in bf16 or f16.
bool canCodeDeltas(BucketOp bucket);
/// Returns whether gathers of `bucket` may send differences: they could, and a
/// slice stays in host memory.
bool mayGatherDeltas(BucketOp bucket);

/// Returns whether `wire` rounds values to codes, and leaves out a residual.
bool isQuantized(std::optional<Wire> wire);

} // namespace fcdp
