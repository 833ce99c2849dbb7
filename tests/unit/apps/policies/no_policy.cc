// A library without a policy.
extern "C" int no_policy() { return 0; }
