"""Floors and predictions of steps and of the run, for each device that is known in advance.

Floors are bytes over the copy rate, or operations over 790 TFLOP/s, whichever is longer. Predictions
come from `twinserve predict` with the shipped profiles, and were written down before a GPU ran anything.
"""

# The names that drivers give, and the data sheets and profiles that belong to them.
HARDWARE = {"NVIDIA H100 80GB HBM3": "h100-sxm", "NVIDIA H200": "h200-sxm"}

# (phase, batch, length) -> floor, predicted, low, high: milliseconds of a bf16 step of Llama-3-8B.
BARS = {
    "h100-sxm": {("decode", 1, 1024): (5.05, 6.52, 5.91, 7.19),
                 ("decode", 32, 1024): (6.43, 8.13, 7.50, 8.81),
                 ("decode", 32, 4096): (10.7, 12.2, 11.5, 12.9),
                 ("decode", 256, 1024): (16.5, 19.4, 18.5, 20.4),
                 ("prefill", 1, 2048): (37.6, 44.2, 39.5, 49.5),
                 ("prefill", 1, 8192): (167, 208, 184, 236)},
    "h200-sxm": {("decode", 1, 1024): (3.52, 5.06, 4.65, 5.50),
                 ("decode", 32, 1024): (4.49, 6.25, 5.82, 6.71),
                 ("decode", 32, 4096): (7.49, 9.06, 8.62, 9.53),
                 ("decode", 256, 1024): (12.9, 15.3, 14.5, 16.1),
                 ("prefill", 1, 2048): (37.6, 41.6, 36.1, 48.1),
                 ("prefill", 1, 8192): (167, 212, 180, 249)},
}

# Requests a second -> milliseconds of vllm_v1.textproto.
RUNS = {
    "h100-sxm": {20: {"mean_ttft_ms": 38.0, "mean_tpot_ms": 9.48, "mean_e2el_ms": 1110},
                 40: {"mean_ttft_ms": 221, "mean_tpot_ms": 14.3, "mean_e2el_ms": 1795}},
    "h200-sxm": {20: {"mean_ttft_ms": 32.8, "mean_tpot_ms": 7.28, "mean_e2el_ms": 854},
                 40: {"mean_ttft_ms": 92.8, "mean_tpot_ms": 12.2, "mean_e2el_ms": 1436}},
}


def hardware_of(device_name):
    """The data sheet of a device by its driver's name; None: no predictions were made for it."""
    return HARDWARE.get(device_name)


def bar_of(hardware, phase, batch, length):
    """floor_ms and the predictions of a step, empty where none were made."""
    names = ("floor_ms", "predicted_ms", "predicted_low", "predicted_high")
    known = BARS.get(hardware, {}).get((phase, batch, length), ("",) * 4)
    return dict(zip(names, known))


def hardware(check):
    """The data sheet of the device of a check, or None."""
    return hardware_of(check.device()["name"])
