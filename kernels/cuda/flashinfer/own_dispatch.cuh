// The cases that FlashInfer's launchers choose from, in place of its own tables: most of its cases
// never occur here, and each takes a kernel. To be included before its attention headers.
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

// Query heads per key head, as in GroupOfCudaCore() of attention_choice.cc.
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

namespace twin::kernels::cuda {

// True if a tile with `tile` rows takes its keys in `steps` steps of 16 on some device of compute
// capability 8.0 to 9.0. That is the largest number for which shared memory (100 to 228 KB) has
// room, with two blocks on a multiprocessor, rounded down to a power of two; at most 8, and at most
// 4 with 128 rows.
constexpr bool TakesSteps(std::uint32_t tile, std::uint32_t head_dim, std::uint32_t steps) {
  if (tile == 16) {
    return head_dim == 64    ? steps == 4 || steps == 2
           : head_dim == 128 ? steps == 2 || steps == 1
                             : steps == 1;
  }
  if (tile == 64) {
    return head_dim == 64    ? steps == 8
           : head_dim == 128 ? steps == 8 || steps == 4
                             : steps == 4 || steps == 2 || steps == 1;
  }
  return head_dim == 64 ? steps == 4 : steps == 4 || steps == 2;
}

}  // namespace twin::kernels::cuda

// CTA_TILE_Q and HEAD_DIM_VO are the launcher's.
#define TWIN_STEPS_CASE(value, NAME, ...)                                            \
  if constexpr (::twin::kernels::cuda::TakesSteps(CTA_TILE_Q, HEAD_DIM_VO, value)) { \
    if (twin_steps >= value) {                                                       \
      constexpr ::std::size_t NAME = value;                                          \
      __VA_ARGS__                                                                    \
      break;                                                                         \
    }                                                                                \
  }

// A while, not a do-while, because some uses end with a semicolon and some do not.
#define DISPATCH_NUM_MMA_KV(steps, NAME, ...) \
  while (true) {                              \
    const auto twin_steps = (steps);          \
    TWIN_STEPS_CASE(8, NAME, __VA_ARGS__)     \
    TWIN_STEPS_CASE(4, NAME, __VA_ARGS__)     \
    TWIN_STEPS_CASE(2, NAME, __VA_ARGS__)     \
    TWIN_STEPS_CASE(1, NAME, __VA_ARGS__)     \
    return cudaErrorInvalidValue;             \
  }
