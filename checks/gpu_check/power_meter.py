"""Power and energy of a device over time, as NVML's counters tell them."""
import ctypes
import threading
import time

from tables import write_csv

SAMPLE_SECONDS = 0.05
CLOCK_SM, TEMPERATURE_GPU = 1, 0


class Nvml:
    """The first device of libnvidia-ml; OSError where the library or a device is missing. Reads only."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        if self.library.nvmlInit_v2() != 0 or self.library.nvmlDeviceGetHandleByIndex_v2(
                0, ctypes.byref(self.device)) != 0:
            raise OSError("NVML has no device")

    def read(self, function, kind, *arguments):
        """The value of a counter, or None where the device has none."""
        value = kind()
        status = getattr(self.library, function)(self.device, *arguments, ctypes.byref(value))
        return value.value if status == 0 else None

    def sample(self):
        """A row of power.csv. `joules` is a counter since the driver was loaded."""
        millijoules = self.read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        milliwatts = self.read("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        return {"unix_s": round(time.time(), 3),
                "joules": None if millijoules is None else millijoules * 1e-3,
                "watts": None if milliwatts is None else milliwatts * 1e-3,
                "sm_mhz": self.read("nvmlDeviceGetClockInfo", ctypes.c_uint, CLOCK_SM),
                "celsius": self.read("nvmlDeviceGetTemperature", ctypes.c_uint, TEMPERATURE_GPU)}


class PowerMeter:
    """Samples a device in a thread, from begin() to end()."""

    def __init__(self, source):
        self.source = source
        self.rows = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._collect, daemon=True)

    def begin(self):
        self.thread.start()
        return self

    def _collect(self):
        while not self.ended.wait(SAMPLE_SECONDS):
            self.rows.append(self.source.sample())

    def end(self):
        self.ended.set()
        self.thread.join(2)

    def write(self, file):
        rows = list(self.rows)
        if rows:
            write_csv(file, rows)

    def mean_watts(self, begin_s, end_s):
        """Joules per second of the counter between two times; None without two samples in between."""
        rows = [row for row in list(self.rows) if begin_s <= row["unix_s"] <= end_s]
        if len(rows) < 2 or rows[0]["joules"] is None:
            return None
        return (rows[-1]["joules"] - rows[0]["joules"]) / (rows[-1]["unix_s"] - rows[0]["unix_s"])


def power_meter():
    """A meter that has begun, or None where NVML is missing."""
    try:
        return PowerMeter(Nvml()).begin()
    except (OSError, AttributeError):
        return None
