// The policy as a shared library: twinserve run EXPERIMENT --policy libshortest_prompt_first.so
#include "config/policy_library.h"
#include "shortest_prompt_first.h"

TWIN_POLICY(ShortestPromptFirst)
