#include "exec/cpu/sequence_states.h"

#include <gtest/gtest.h>

namespace twin::exec {
namespace {

constexpr RequestId kFirst{3};
constexpr RequestId kSecond{1};

TEST(SequenceStatesTest, KeepNumbersUntilTheFirstTokenIsComputedAgain) {
  SequenceStates states(2);
  float* const numbers = states.Advance(kFirst, 0, 5);
  EXPECT_EQ(numbers[0], 0);
  numbers[0] = 7;
  EXPECT_EQ(states.Advance(kFirst, 5, 1), numbers);
  EXPECT_EQ(numbers[0], 7);
  EXPECT_EQ(states.Advance(kFirst, 0, 3)[0], 0);
}

TEST(SequenceStatesTest, SlotsAreApartAndUsedAgain) {
  SequenceStates states(1);
  float* const first = states.Advance(kFirst, 0, 1);
  *first = 1;
  *states.Advance(kSecond, 0, 1) = 2;
  EXPECT_EQ(*states.Advance(kFirst, 1, 1), 1);
  EXPECT_EQ(states.slots(), 2U);
  states.Release(kFirst);
  states.Release(kFirst);  // once more: nothing
  EXPECT_EQ(states.Advance(RequestId{9}, 0, 1), first);
  EXPECT_EQ(*first, 0);
  EXPECT_EQ(states.slots(), 2U);
}

TEST(SequenceStatesDeathTest, ATokenInTheMiddleIsNotComputed) {
  SequenceStates states(1);
  states.Advance(kFirst, 0, 4);
  EXPECT_DEATH(states.Advance(kFirst, 5, 1), "computed == start");
  states.Release(kFirst);
  EXPECT_DEATH(states.Advance(kFirst, 4, 1), "computed == start");
}

}  // namespace
}  // namespace twin::exec
