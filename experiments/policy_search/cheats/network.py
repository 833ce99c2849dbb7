"""Tells others what it sees, and asks them what to do."""
import socket
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Network(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        socket.create_connection(("127.0.0.1", 22), timeout=1)
