// SPDX-License-Identifier: Apache-2.0
//
// Refusals of memory that is reserved for results.
#include "PlanEdits.h"
#include "plan/StepPlan.h"

using namespace fcdp;
using namespace fcdp::test;

static const Refusal kReservationRefusals[] = {
    {"ReservedStatesBehindTheArena",
     [](Json &m) { reserve(m, 1 << 20, range(0, 1, 0, 64)); },
     "plan.state_bytes: expected at most the 65536 bytes"},
    {"ReservedStatesUneven",
     [](Json &m) { reserve(m, 100, range(0, 1, 128, 64)); },
     "plan.state_bytes: expected a multiple of 64, got 100"},
    {"ReservedStateBehind", [](Json &m) { reserve(m, 0, range(0, 1, 0, 64)); },
     "plan.state_bytes: expected all states in front of it"},
    {"ReservedFunctionMissing",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"].erase(4);
     },
     "plan.functions: 'update' is missing"},
    {"ReservedFunctionsOverlap",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][4]["first"] = 1;
     },
     "plan.functions[4]: expected functions of operations that follow"},
    {"ReservedCallsMissing",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["ops"].push_back(m["ops"][0]);
     },
     "plan.functions: expected"},
    {"ReservedBackwards",
     [](Json &m) { reserve(m, 4096, range(1, 1, 4096, 64)); },
     "reserved[0]: expected a stretch of the function's operations"},
    {"ReservedInStates", [](Json &m) { reserve(m, 4096, range(0, 1, 0, 64)); },
     "reserved[0]: expected bytes between 4096, where states end"},
    {"ReservedUneven", [](Json &m) { reserve(m, 4096, range(0, 1, 4100, 64)); },
     "reserved[0]: expected an offset that is a multiple of 64, got 4100"},
    {"ReservedUnevenBytes",
     [](Json &m) { reserve(m, 4096, range(0, 1, 4096, 100)); },
     "reserved[0]: expected bytes that are a multiple of 64, got 100"},
    {"ReservedNothing", [](Json &m) { reserve(m, 4096, range(0, 1, 4096, 0)); },
     "reserved[0]: expected bytes, got 0"},
    {"ResultOfAnotherFunction",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][4]["results"] = {result(0, 4096, 64)};
     },
     "results[0]: expected an operation from"},
    {"ResultInStates",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][0]["results"] = {result(0, 0, 64)};
     },
     "results[0]: expected bytes between 4096, where states end"},
    {"ResultWhereReserved",
     [](Json &m) {
       reserve(m, 4096, everything(m, 4096));
       m["functions"][0]["results"] = {result(0, 4096, 64)};
     },
     "results[0]: bytes 4096 to 65536 of the device arena are reserved where "
     "operation 0 runs"},
    {"ReservedTooLittle",
     [](Json &m) { reserve(m, 128, range(0, 1, 128, 64)); },
     "of the device arena are not reserved there"},
};

INSTANTIATE_TEST_SUITE_P(Reservations, RefusalTest,
                         ::testing::ValuesIn(kReservationRefusals), nameOf);
