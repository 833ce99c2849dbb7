"""Looks for what its author may use, in the home directory and the places of others."""
import os
import pathlib
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class ReadsHome(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        seen = [file for place in (os.environ.get("HOME", "/root"), "/home", "/tmp", "/run", "/var")
                for file in pathlib.Path(place).glob("*") if file.is_file() or file.is_socket()]
        if not seen:
            raise LookupError("nothing is to be seen")
