// A libnvidia-ml.so.1 with one device, at the emulated device's place of the bus.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  static int only = 0;
  *device = &only;
  return std::strcmp(bus, "") == 0 ? 6 : 0;
}

// 1: of the multiprocessors, 2: of the memory.
int nvmlDeviceGetClockInfo(void*, unsigned which, unsigned* mhz) {
  *mhz = which == 1 ? 1755 : 2619;
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 412'500;
  return 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
  *reasons = 4;  // SwPowerCap
  return 0;
}
}
