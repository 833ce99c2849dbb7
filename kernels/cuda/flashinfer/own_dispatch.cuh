// The cases that FlashInfer's launchers choose from, instead of its own tables: fewer kernels, as
// most of its cases never come up here. To be included before its attention headers.
#pragma once

#include <flashinfer/utils.cuh>

#undef DISPATCH_GQA_GROUP_SIZE
#undef DISPATCH_COMPUTE_CAP_DECODE_NUM_STAGES_SMEM
#undef DISPATCH_NUM_MMA_KV

#define TWIN_CASE_IF(condition, constant, NAME, ...) \
  if (condition) {                                   \
    constexpr ::std::size_t NAME = constant;         \
    __VA_ARGS__                                      \
  } else

// Query heads per key head; as GroupOfCudaCore() of attention_choice.cc.
#define DISPATCH_GQA_GROUP_SIZE(group_size, NAME, ...)  \
  {                                                     \
    const auto twin_group = (group_size);               \
    TWIN_CASE_IF(twin_group == 1, 1, NAME, __VA_ARGS__) \
    TWIN_CASE_IF(twin_group == 2, 2, NAME, __VA_ARGS__) \
    TWIN_CASE_IF(twin_group == 3, 3, NAME, __VA_ARGS__) \
    TWIN_CASE_IF(twin_group == 4, 4, NAME, __VA_ARGS__) \
    TWIN_CASE_IF(twin_group == 8, 8, NAME, __VA_ARGS__) \
    return cudaErrorInvalidValue;                       \
  }

// Two stages of shared memory from compute capability 8.0 on.
#define DISPATCH_COMPUTE_CAP_DECODE_NUM_STAGES_SMEM(capability, NAME, ...) \
  {                                                                        \
    static_cast<void>(capability);                                         \
    constexpr ::std::uint32_t NAME = 2;                                    \
    __VA_ARGS__                                                            \
  }

// Steps of 16 keys a tile; how many fit into shared memory, rounded down.
#define DISPATCH_NUM_MMA_KV(steps, NAME, ...)           \
  {                                                     \
    const auto twin_steps = (steps);                    \
    TWIN_CASE_IF(twin_steps >= 8, 8, NAME, __VA_ARGS__) \
    TWIN_CASE_IF(twin_steps >= 4, 4, NAME, __VA_ARGS__) \
    TWIN_CASE_IF(twin_steps >= 2, 2, NAME, __VA_ARGS__) \
    return cudaErrorInvalidValue;                       \
  }
