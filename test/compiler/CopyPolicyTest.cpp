// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Residency/CopyPolicy.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
constexpr Residency kResidencies[] = {Residency::full, Residency::node,
                                      Residency::host, Residency::drop};

CopyPolicy makePolicy(Residency residency, Residency carry, bool isTrainable,
                      bool hasSeveral, bool isUsedAgain = true,
                      bool runsBetweenSteps = false) {
  return CopyPolicy({residency, carry, isTrainable, hasSeveral, isUsedAgain,
                     runsBetweenSteps});
}

void expectRow(const CopyPolicy &policy, Role role, Residency first,
               Residency later, bool fillsState) {
  const CopyActions &row = policy.get(role);
  EXPECT_EQ(row.first, first) << stringifyRole(role).str();
  EXPECT_EQ(row.later, later) << stringifyRole(role).str();
  EXPECT_EQ(row.fillsState, fillsState) << stringifyRole(role).str();
}
} // namespace

/// FCDP with several micro-batches: one gather over the network a step.
TEST(CopyPolicyTest, hostIsFilledByTheFirstMicroBatch) {
  CopyPolicy policy = makePolicy(Residency::host, Residency::host, true, true);
  EXPECT_EQ(policy.state, Residency::host);
  EXPECT_FALSE(policy.get(Role::init).fillsState);
  expectRow(policy, Role::first_microbatch, Residency::drop, Residency::host,
            true);
  expectRow(policy, Role::next_microbatch, Residency::host, Residency::host,
            false);
  expectRow(policy, Role::last_microbatch, Residency::host, Residency::host,
            false);
}

TEST(CopyPolicyTest, frozenHostIsFilledByInit) {
  CopyPolicy policy =
      makePolicy(Residency::host, Residency::host, false, false);
  EXPECT_TRUE(policy.get(Role::init).fillsState);
  expectRow(policy, Role::only_microbatch, Residency::host, Residency::host,
            false);
}

/// With one micro-batch nothing of a trained bucket outlives it.
TEST(CopyPolicyTest, oneMicroBatchCarriesNothing) {
  for (Residency residency : kResidencies)
    for (Residency carry : kResidencies) {
      CopyPolicy policy = makePolicy(residency, carry, true, false);
      EXPECT_EQ(policy.get(Role::only_microbatch).first, Residency::drop);
      EXPECT_EQ(policy.state, residency == Residency::host ? Residency::host
                                                           : Residency::drop);
    }
}

/// A cache that serves no second use is not filled.
TEST(CopyPolicyTest, hostWithoutASecondUseIsNotStored) {
  CopyPolicy policy =
      makePolicy(Residency::host, Residency::drop, true, true, false);
  EXPECT_EQ(policy.state, Residency::drop);
  expectRow(policy, Role::next_microbatch, Residency::drop, Residency::host,
            false);
}

/// Each micro-batch stores the slice for its own backward pass.
/// But what the next gather refers to is.
TEST(CopyPolicyTest, hostIsStoredForTheNextGather) {
  CopyDecision decision{Residency::host, Residency::host, true, false,
                        /*isUsedAgain=*/false};
  decision.isReference = true;
  CopyPolicy policy(decision);
  EXPECT_EQ(policy.state, Residency::host);
  EXPECT_TRUE(policy.get(Role::only_microbatch).fillsState);
  EXPECT_EQ(policy.get(Role::only_microbatch).first, Residency::drop);
}

TEST(CopyPolicyTest, hostWithinAMicroBatchIsFilledByEach) {
  for (bool isTrainable : {true, false}) {
    CopyPolicy policy =
        makePolicy(Residency::host, Residency::drop, isTrainable, true);
    EXPECT_EQ(policy.state, Residency::host);
    EXPECT_FALSE(policy.get(Role::init).fillsState);
    for (Role role :
         {Role::first_microbatch, Role::next_microbatch, Role::last_microbatch})
      expectRow(policy, role, Residency::drop, Residency::host, true);
  }
}

/// A copy that stays on the device for the next micro-batch serves the uses of
/// a micro-batch.
TEST(CopyPolicyTest, whatIsCarriedOnTheDeviceServesLaterUses) {
  CopyPolicy whole = makePolicy(Residency::drop, Residency::full, true, true);
  EXPECT_EQ(whole.state, Residency::full);
  EXPECT_EQ(whole.within, Residency::full);
  expectRow(whole, Role::first_microbatch, Residency::drop, Residency::full,
            true);
  expectRow(whole, Role::next_microbatch, Residency::full, Residency::full,
            false);
  CopyPolicy slice = makePolicy(Residency::full, Residency::node, true, true);
  EXPECT_EQ(slice.state, Residency::node);
  EXPECT_EQ(slice.within, Residency::full);
  expectRow(slice, Role::last_microbatch, Residency::node, Residency::full,
            false);
}

/// The forward pass loads the slice; there is no need to gather it again.
TEST(CopyPolicyTest, dropWithinAMicroBatchLoadsWhatIsCarried) {
  CopyPolicy policy = makePolicy(Residency::drop, Residency::host, true, true);
  expectRow(policy, Role::first_microbatch, Residency::drop, Residency::drop,
            true);
  expectRow(policy, Role::next_microbatch, Residency::host, Residency::host,
            false);
}

/// Trained parameters have changed since the last evaluation, and frozen ones
/// have not.
TEST(CopyPolicyTest, evaluationsFetchOverTheNetworkOnce) {
  for (bool hasSeveral : {true, false}) {
    CopyPolicy policy =
        makePolicy(Residency::host, Residency::host, true, hasSeveral);
    expectRow(policy, Role::first_evaluation, Residency::drop, Residency::host,
              true);
    expectRow(policy, Role::next_evaluation, Residency::host, Residency::host,
              false);
    CopyPolicy frozen =
        makePolicy(Residency::host, Residency::host, false, hasSeveral);
    for (Role role : {Role::first_evaluation, Role::next_evaluation})
      expectRow(frozen, role, Residency::host, Residency::host, false);
  }
  CopyPolicy dropped = makePolicy(Residency::drop, Residency::drop, true, true);
  for (Role role : {Role::first_evaluation, Role::next_evaluation})
    expectRow(dropped, role, Residency::drop, Residency::drop, false);
}

/// A bucket that a micro-batch uses once has a state for evaluations alone.
TEST(CopyPolicyTest, evaluationsKeepInHostMemoryWhatStepsUseOnce) {
  CopyPolicy policy = makePolicy(Residency::host, Residency::host, true,
                                 /*hasSeveral=*/false, /*isUsedAgain=*/false,
                                 /*runsBetweenSteps=*/true);
  EXPECT_EQ(policy.state, Residency::host);
  EXPECT_FALSE(policy.get(Role::only_microbatch).fillsState);
  EXPECT_TRUE(policy.get(Role::first_evaluation).fillsState);
  EXPECT_EQ(policy.get(Role::next_evaluation).first, Residency::host);
}

/// The closed forms of the presets: K u for zero3, 1 for what is carried, K for
/// what is kept within a micro-batch, none for what is frozen and carried.
TEST(CopyPolicyTest, countsGathersOverTheNetwork) {
  constexpr int64_t batches = 4, uses = 3;
  auto count = [&](Residency residency, Residency carry, bool isTrainable) {
    return makePolicy(residency, carry, isTrainable, true)
        .countNetworkGathers(batches, uses);
  };
  EXPECT_EQ(count(Residency::drop, Residency::drop, true), batches * uses);
  for (Residency kept : {Residency::full, Residency::node, Residency::host}) {
    EXPECT_EQ(count(kept, kept, true), 1);
    EXPECT_EQ(count(kept, Residency::drop, true), batches);
    EXPECT_EQ(count(kept, kept, false), 0);
  }
}

/// Holds for every row: a use that takes a state's copy has one, filled before
/// it or by itself, and one that fills a state gathers.
TEST(CopyPolicyTest, everySourceIsThere) {
  for (Residency residency : kResidencies)
    for (Residency carry : kResidencies)
      for (bool isTrainable : {true, false})
        for (int64_t microBatches : {1, 3})
          for (bool isUsedAgain : {true, false}) {
            CopyPolicy policy = makePolicy(residency, carry, isTrainable,
                                           microBatches > 1, isUsedAgain,
                                           /*runsBetweenSteps=*/true);
            bool isFilled = policy.get(Role::init).fillsState;
            auto roles = StepFamily(microBatches).getStep();
            roles.append({Role::first_evaluation, Role::next_evaluation});
            for (Role role : roles) {
              if (!runsModel(role))
                continue;
              const CopyActions &row = policy.get(role);
              EXPECT_TRUE(!row.fillsState || row.first == Residency::drop);
              EXPECT_TRUE(row.first == Residency::drop || isFilled);
              isFilled |= row.fillsState;
              if (isUsedAgain && row.later == Residency::host)
                EXPECT_TRUE(isFilled && policy.state == Residency::host);
            }
          }
}
