"""Shared parts of the rivals that are Python packages: a process of bench_pool that owns memory, or
that reads commands from its input.

An owner prints "ready ..." and ends with its standard input. A client prints "ready", then an
answer in JSON for each line:
  put KEY SIZE COUNT | get KEY SIZE COUNT         {"seconds": [...]} of each call; each get is
  compared with what was put
  many PREFIX SECONDS                             {"rate": ...} objects of 4 KiB committed per
  second
"""

import ctypes
import json
import mmap
import os
import sys
import time


def block(size):
    """Populated memory and its address."""
    memory, pattern = mmap.mmap(-1, size), os.urandom(1 << 20)
    for at in range(0, size, len(pattern)):
        memory[at : at + len(pattern)] = pattern[: size - at]
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def expect(call, status, wanted=0):
    if status != wanted:
        sys.exit(f"{call}: {status}")


class Client:
    """The source is in the lower half of its memory, the target in the upper one. Subclasses define
    put_once(key, size) and get_once(key, size), which return a result, and got(size), the value of
    a successful get.
    """

    def __init__(self, size_max):
        self.size_max = size_max
        self.memory, self.addr = block(2 * size_max)

    def got(self, _):
        return 0

    def times(self, name, call, count, wanted):
        seconds = []
        for _ in range(int(count)):
            start = time.perf_counter()
            status = call()
            seconds.append(time.perf_counter() - start)
            expect(name, status, wanted)
        return {"seconds": seconds}

    def put(self, key, size, count):
        return self.times("put", lambda: self.put_once(key, int(size)), count, 0)

    def get(self, key, size, count):
        size, target = int(size), self.size_max
        self.memory[target : target + size] = bytes(size)
        answer = self.times("get", lambda: self.get_once(key, size), count, self.got(size))
        if self.memory[:size] != self.memory[target : target + size]:
            sys.exit("get: other bytes")
        return answer

    def serve(self):
        print("ready", flush=True)
        for line in sys.stdin:
            call, *arguments = line.split()
            print(json.dumps(getattr(self, call)(*arguments)), flush=True)
