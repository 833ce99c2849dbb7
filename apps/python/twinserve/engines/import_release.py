"""Imports modules of an installed original, to find what stands in the way.

Usage: import_release.py PACKAGES ABSENT MODULE...    (by the Python of the original's environment)

ABSENT: packages that empty modules replace, with commas between.
"""
import importlib
import logging
import sys

import absent

if __name__ == "__main__":
    packages, absent_names, *modules = sys.argv[1:]
    sys.path[0] = packages  # in place of this folder, whose modules nobody shall find
    logging.disable(logging.CRITICAL)
    absent.install([name for name in absent_names.split(",") if name])
    for module in modules:
        importlib.import_module(module)
