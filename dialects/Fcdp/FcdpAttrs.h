// SPDX-License-Identifier: Apache-2.0
//
// The attributes of the dialect.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "dialects/Fcdp/FcdpAttrInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Fcdp/FcdpAttrs.h.inc"
