"""Imports modules of an installed original, to find what stands in the way.

Usage: import_release.py PACKAGES ABSENT MODULE...    (by the Python of the original's environment)

ABSENT: packages that empty modules replace, with commas between.
"""
import importlib
import logging
import pathlib
import sys

if __name__ == "__main__":
    packages, absent_names, *modules = sys.argv[1:]
    sys.path[:0] = [str(pathlib.Path(__file__).parent), packages]
    logging.disable(logging.CRITICAL)
    import absent
    absent.install([name for name in absent_names.split(",") if name])
    for module in modules:
        importlib.import_module(module)
