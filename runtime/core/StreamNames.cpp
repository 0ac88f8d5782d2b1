// SPDX-License-Identifier: Apache-2.0
#include "core/Backend.h"

namespace fcdp {

const char *name(StreamId stream) {
  switch (stream) {
  case StreamId::Compute:
    return "compute";
  case StreamId::Inter:
    return "inter";
  case StreamId::Intra:
    return "intra";
  case StreamId::D2H:
    return "d2h";
  case StreamId::H2D:
    return "h2d";
  case StreamId::InterReduce:
    return "inter_reduce";
  case StreamId::IntraReduce:
    return "intra_reduce";
  case StreamId::Host:
    return "host";
  }
  return "?";
}

} // namespace fcdp
