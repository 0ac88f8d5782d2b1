// SPDX-License-Identifier: Apache-2.0
#include "policy/LearningRates.h"

#include "core/SessionError.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

TEST(LearningRatesTest, ABaseAndAFactor) {
  LearningRates rates(0.5);
  EXPECT_EQ(rates.rateAfter(7), 0.5);
  EXPECT_EQ(rates.schedule(), "constant");
  EXPECT_EQ(rates.addTo({{"rows", 8}}), nlohmann::json({{"rows", 8}}));
  rates.setBase(4);
  rates.setSchedule(Schedule::parse("constant,warmup=2,start=0.5", "--lr"));
  EXPECT_EQ(rates.base(), 4);
  EXPECT_EQ(rates.rateAfter(0), 2);
  EXPECT_EQ(rates.rateAfter(1), 3);
  for (double wrong : {-1.0, std::nan(""), double(INFINITY)})
    EXPECT_THROW(rates.setBase(wrong), SessionError);
  EXPECT_EQ(rates.base(), 4);
}

TEST(LearningRatesTest, ContinueFromACheckpoint) {
  LearningRates saved(0.5);
  saved.setBase(4);
  saved.setSchedule(Schedule::parse("constant,warmup=2,start=0.5", "--lr"));
  const nlohmann::json job = saved.addTo({{"rows", 8}});
  EXPECT_EQ(job["rows"], 8);
  LearningRates loaded(0.25);
  loaded.takeFrom(nlohmann::json::object(), "index.json.job");
  EXPECT_EQ(loaded.rateAfter(0), 0.25);
  loaded.takeFrom(job, "index.json.job");
  EXPECT_EQ(loaded.rateAfter(1), 3);
  EXPECT_EQ(loaded.schedule(), saved.schedule());
  try {
    loaded.takeFrom({{"learning_rate", -1}}, "index.json.job");
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("index.json.job.learning_rate"),
              std::string::npos)
        << error.what();
  }
}

} // namespace
