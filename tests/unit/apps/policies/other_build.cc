// A library as another build of twinserve would have it.
extern "C" __attribute__((visibility("default"))) const char* twin_policy_abi() {
  return "0123456789abcdef, compiler 9.4.0";
}
extern "C" __attribute__((visibility("default"))) void* twin_make_policy() { return nullptr; }
