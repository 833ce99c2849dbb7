#include "exec/cuda/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "exec/comm/agreement.h"
#include "exec/comm/thread_ranks.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/staged_communicator.h"
#include "kernels/float_formats.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/emulated_nccl.h"

namespace twin::exec::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Duration kLimit = std::chrono::seconds(20);

std::shared_ptr<const NcclLibrary> Emulated() {
  return std::make_shared<const NcclLibrary>(cuda_emulation::EmulatedNccl());
}

template <class T>
DeviceBuffer ToDevice(const std::vector<T>& values) {
  DeviceBuffer buffer(static_cast<std::int64_t>(values.size() * sizeof(T)), "test values");
  CheckCuda(
      cudaMemcpy(buffer.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  return buffer;
}

template <class T>
std::vector<T> ToHost(const DeviceBuffer& buffer) {
  std::vector<T> values(static_cast<std::size_t>(buffer.bytes()) / sizeof(T));
  CheckCuda(
      cudaMemcpy(values.data(), buffer.data(), values.size() * sizeof(T), cudaMemcpyDeviceToHost),
      "cudaMemcpy");
  return values;
}

// What joining begins with, for a rank that then does not join.
void SucceedTogetherAndTakeId(Communicator& host, ncclUniqueId& id) {
  SucceedTogether(host, [] {});
  host.Broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
}

// Each rank a thread with its own device, and an end of one NCCL group.
class NcclCommunicatorTest : public testing::Test {
 protected:
  NcclCommunicatorTest() { cuda_emulation::ResetDevice({.devices = 4, .memory_bytes = 1 << 24}); }
  ~NcclCommunicatorTest() override {
    cuda_emulation::SetNcclPatience(std::chrono::seconds(10));
    SetNcclFinder(nullptr);
    EXPECT_EQ(cuda_emulation::LiveNcclEnds(), 0);
  }

  using Body = std::function<void(NcclCommunicator&, const Stream&, Communicator& host)>;
  static void RunRanks(std::int32_t ranks, const Body& body, Duration limit = kLimit) {
    RunThreadRanks(ranks, kLimit, [&](Communicator& host) {
      CheckCuda(cudaSetDevice(host.rank()), "cudaSetDevice");
      NcclCommunicator group(Emulated(), host, limit);
      const Stream stream;
      body(group, stream, host);
    });
  }
  static void Await(NcclCommunicator& group, const Stream& stream) {
    const Event event(Event::Kind::kOrder);
    event.Record(stream.view());
    group.Await(event, Patience::kBounded);
  }
};

// Rank r brings r + 1 + i / 4: four ranks' sum is 10 + i, exact in every format.
TEST_F(NcclCommunicatorTest, SumsWhatAllRanksBring) {
  for (const std::int32_t ranks : {1, 2, 4}) {
    RunRanks(ranks, [&](NcclCommunicator& group, const Stream& stream, Communicator&) {
      std::vector<float> wide(8);
      std::vector<std::uint16_t> bf16(8);
      std::vector<float> expected(8);
      for (std::size_t i = 0; i < 8; ++i) {
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
          const float value = static_cast<float>(rank + 1) + static_cast<float>(i) / 4;
          expected[i] += value;
          if (rank != group.rank()) continue;
          wide[i] = value;
          bf16[i] = kernels::FloatToBf16(value);
        }
      }
      const DeviceBuffer wide_device = ToDevice(wide);
      const DeviceBuffer bf16_device = ToDevice(bf16);
      group.AllReduceSum(stream.view(), wide_device.data(), 8, DType::kFp32);
      group.AllReduceSum(stream.view(), bf16_device.data(), 8, DType::kBf16);
      Await(group, stream);
      EXPECT_EQ(ToHost<float>(wide_device), expected);
      for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(kernels::Bf16ToFloat(ToHost<std::uint16_t>(bf16_device)[i]), expected[i]);
      }
    });
  }
}

TEST_F(NcclCommunicatorTest, GathersInTheOrderOfRanks) {
  RunRanks(3, [](NcclCommunicator& group, const Stream& stream, Communicator&) {
    const DeviceBuffer own = ToDevice(std::vector<std::int32_t>{group.rank(), 10 * group.rank()});
    const DeviceBuffer all(24, "test values");
    group.AllGather(stream.view(), own.data(), all.data(), 8);
    Await(group, stream);
    EXPECT_THAT(ToHost<std::int32_t>(all), ElementsAre(0, 0, 1, 10, 2, 20));
  });
}

TEST_F(NcclCommunicatorTest, PassesMessagesFromStageToStage) {
  RunRanks(3, [](NcclCommunicator& group, const Stream& stream, Communicator&) {
    const DeviceBuffer values = ToDevice(std::vector<std::int32_t>{7, 8, 9});
    if (group.rank() > 0) {
      CheckCuda(cudaMemset(values.data(), 0, 12), "cudaMemset");
      group.Receive(stream.view(), values.data(), 12, group.rank() - 1);
    }
    if (group.rank() < 2) group.Send(stream.view(), values.data(), 12, group.rank() + 1);
    Await(group, stream);
    EXPECT_THAT(ToHost<std::int32_t>(values), ElementsAre(7, 8, 9));
  });
}

TEST_F(NcclCommunicatorTest, IsReplayedFromAGraph) {
  RunRanks(2, [](NcclCommunicator& group, const Stream& stream, Communicator&) {
    ASSERT_TRUE(group.capturable());
    const DeviceBuffer values = ToDevice(std::vector<float>{1, 2});
    const Graph graph = Graph::Capture(
        stream.view(), [&] { group.AllReduceSum(stream.view(), values.data(), 2, DType::kFp32); });
    for (int replay = 0; replay < 3; ++replay) graph.Launch(stream.view());
    Await(group, stream);
    EXPECT_THAT(ToHost<float>(values), ElementsAre(8, 16));  // doubled three times
  });
}

// The others are told by the host's group, while they wait for it to join.
TEST_F(NcclCommunicatorTest, ARankThatNeverJoinsEndsTheOthers) {
  EXPECT_THAT(
      [] {
        RunThreadRanks(3, kLimit, [](Communicator& host) {
          CheckCuda(cudaSetDevice(host.rank()), "cudaSetDevice");
          if (host.rank() == 2) {
            ncclUniqueId id{};
            SucceedTogetherAndTakeId(host, id);
            throw std::runtime_error("rank 2 has gone");
          }
          NcclCommunicator group(Emulated(), host, kLimit);
        });
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("rank 2 has gone")));
}

TEST_F(NcclCommunicatorTest, JoiningHasALimit) {
  EXPECT_THROW(RunThreadRanks(2, kLimit,
                              [](Communicator& host) {
                                CheckCuda(cudaSetDevice(host.rank()), "cudaSetDevice");
                                if (host.rank() == 1) {
                                  ncclUniqueId id{};
                                  SucceedTogetherAndTakeId(host, id);
                                  host.Barrier();
                                  return;
                                }
                                NcclCommunicator group(Emulated(), host,
                                                       std::chrono::milliseconds(30));
                              }),
               CommunicationError);
}

TEST_F(NcclCommunicatorTest, TwoRanksOfOneDeviceAreRefused) {
  EXPECT_THAT(
      [] {
        RunThreadRanks(2, kLimit, [](Communicator& host) {
          NcclCommunicator group(Emulated(), host, kLimit);
        });
      },
      ThrowsMessage<CommunicationError>(HasSubstr("joining a NCCL group: ")));
}

TEST_F(NcclCommunicatorTest, AnErrorOfTheLibraryEndsTheWaitAndTheGroup) {
  cuda_emulation::SetNcclPatience(std::chrono::milliseconds(30));
  RunRanks(2, [](NcclCommunicator& group, const Stream& stream, Communicator& host) {
    const DeviceBuffer values = ToDevice(std::vector<float>{1});
    if (group.rank() == 0) {
      group.AllReduceSum(stream.view(), values.data(), 1, DType::kFp32);
      EXPECT_THAT([&] { Await(group, stream); },
                  ThrowsMessage<CommunicationError>(HasSubstr("rank 0: waiting for the device: ")));
      EXPECT_THROW(group.AllReduceSum(stream.view(), values.data(), 1, DType::kFp32),
                   CommunicationError);
    }
    host.Barrier();
  });
}

TEST_F(NcclCommunicatorTest, RanksThatCallWithDifferentSizesFail) {
  RunRanks(2, [](NcclCommunicator& group, const Stream& stream, Communicator& host) {
    const DeviceBuffer values = ToDevice(std::vector<float>{1, 2});
    group.AllReduceSum(stream.view(), values.data(), 1 + group.rank(), DType::kFp32);
    EXPECT_THROW(Await(group, stream), CommunicationError);
    host.Barrier();
  });
}

TEST_F(NcclCommunicatorTest, AWaitHasALimitUnlessItIsUnbounded) {
  RunRanks(
      1,
      [](NcclCommunicator& group, const Stream& stream, Communicator&) {
        const Event event(Event::Kind::kOrder);
        event.Record(stream.view());
        cuda_emulation::FailCall("cudaEventQuery", 1, cudaErrorNotReady);
        group.Await(event, Patience::kUnbounded);
        cuda_emulation::FailCall("cudaEventQuery", 1, cudaErrorNotReady);
        EXPECT_THAT([&] { group.Await(event, Patience::kBounded); },
                    ThrowsMessage<CommunicationError>(HasSubstr("not done within")));
      },
      Duration::zero());
}

TEST_F(NcclCommunicatorTest, IsChosenWhereEveryRankHasADeviceAndTheLibrary) {
  SetNcclFinder(&Emulated);
  RunThreadRanks(2, kLimit, [](Communicator& host) {
    CheckCuda(cudaSetDevice(host.rank()), "cudaSetDevice");
    const auto group = ConnectDevices(host);
    EXPECT_NE(dynamic_cast<NcclCommunicator*>(group.get()), nullptr);
  });
}

TEST_F(NcclCommunicatorTest, RanksOfOneDeviceAreStaged) {
  SetNcclFinder(&Emulated);
  RunThreadRanks(2, kLimit, [](Communicator& host) {
    const auto group = ConnectDevices(host);
    EXPECT_NE(dynamic_cast<StagedCommunicator*>(group.get()), nullptr);
  });
}

TEST_F(NcclCommunicatorTest, WithoutTheLibraryRanksAreStaged) {
  SetNcclFinder([] { return std::make_shared<const NcclLibrary>("libnccl.so.0"); });
  RunThreadRanks(2, kLimit, [](Communicator& host) {
    CheckCuda(cudaSetDevice(host.rank()), "cudaSetDevice");
    const auto group = ConnectDevices(host);
    EXPECT_NE(dynamic_cast<StagedCommunicator*>(group.get()), nullptr);
  });
}

TEST(NcclLibraryTest, ThatIsMissingSaysSoByName) {
  const NcclLibrary library("libnccl.so.0");
  EXPECT_FALSE(library.usable());
  EXPECT_THAT(library.why(), HasSubstr("libnccl.so.0"));
}

TEST(NcclLibraryTest, ThatLacksAFunctionIsNotUsable) {
  EXPECT_THAT(NcclLibrary("libm.so.6").why(), HasSubstr("libm.so.6 lacks ncclGetVersion"));
}

TEST(NcclLibraryTest, TellsItsVersion) { EXPECT_EQ(Emulated()->version(), "2.28.9"); }

}  // namespace
}  // namespace twin::exec::cuda
