#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's own Gloo backend through torch.distributed, as a program that uses it would call it. Usage: torch.py RANKS

The rank's side of a contest is C++ (benchmarks/contest/c.h): it calls what is here once for each operation, so that buffers,
pinning, meeting and clock are the same as for everybody; what Python adds to a call, some microseconds, is torch's own price.
"""

import ctypes
import datetime
import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist

LIBRARY = pathlib.Path(__file__).with_name("libregroup_contest_c.so")
PR_SET_PDEATHSIG = 1

OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "minimum": dist.ReduceOp.MIN,
       "maximum": dist.ReduceOp.MAX}  # fmt: skip


class Turn(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("collective", "type", "op")),
        *((name, ctypes.c_uint32) for name in ("rank", "ranks", "root", "in_place")),
        *((name, ctypes.c_uint64) for name in ("part", "part_bytes")),
        *((name, ctypes.c_void_p) for name in ("input", "output")),
        *((name, ctypes.c_uint64) for name in ("input_parts", "output_parts")),
    ]


# A returned string must outlive the call: an address, of bytes that `Driver` keeps.
START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
PREPARE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Turn))
CALL = ctypes.CFUNCTYPE(ctypes.c_void_p)


class Functions(ctypes.Structure):
    _fields_ = [("start", START), ("prepare", PREPARE), ("call", CALL)]


def tensor_at(address, count, dtype):
    """The memory itself, not a copy."""
    if not address or not count:
        return torch.empty(0, dtype=dtype)
    size = torch.empty(0, dtype=dtype).element_size()
    memory = (ctypes.c_char * (count * size)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=count)


class Driver:
    def __init__(self):
        self.words = None
        self.operation = None
        # Kept: C holds only their addresses.
        self.functions = Functions(START(self.guarded(self.start)), PREPARE(self.guarded(self.prepare)),
                                   CALL(self.guarded(self.call)))  # fmt: skip

    def guarded(self, function):
        """What `function` returns or raises, as C is to be told: an exception must not be lost on the way."""

        def told(*arguments):
            try:
                problem = function(*arguments)
            except Exception as error:  # noqa: BLE001
                problem = f"{type(error).__name__}: {error}"
            if not problem:
                return None
            self.words = ctypes.create_string_buffer(problem.splitlines()[0].encode())
            return ctypes.addressof(self.words)

        return told

    def start(self, rank, ranks):
        torch.set_num_threads(1)
        folder = pathlib.Path(os.environ["REGROUP_CONTEST_FOLDER"])
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=f"file://{folder}/torch-store", rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=60))  # fmt: skip
        return None

    def prepare(self, turn):
        turn = turn.contents
        collective = turn.collective.decode()
        dtype = getattr(torch, turn.type.decode(), None)
        op = OPS.get(turn.op.decode())
        if dtype is None:
            return f"torch has no {turn.type.decode()}"
        if collective in ("all_reduce", "reduce", "reduce_scatter") and op is None:
            return f"torch's Gloo has no {turn.op.decode()}"
        if turn.in_place and turn.input_parts != 1:
            return "torch has no in-place form of it"
        source = tensor_at(turn.input, turn.part * turn.input_parts, dtype)
        target = tensor_at(turn.output, turn.part * turn.output_parts, dtype)
        operation = self.operation_for(collective, turn, source, target, op)
        if operation is None:
            return f"torch's Gloo has no {collective}"
        self.operation = operation
        return None

    def operation_for(self, collective, turn, source, target, op):
        root, here = turn.root, turn.rank == turn.root
        if collective == "barrier":
            return dist.barrier
        if collective in ("all_reduce", "reduce", "broadcast"):
            # In torch these work in place only: who wants to keep the input copies it, and that belongs to the call.
            def operation():
                vector = target if target.numel() else scratch
                if not turn_in_place and (collective != "broadcast" or here):
                    vector.copy_(source)
                if collective == "all_reduce":
                    dist.all_reduce(vector, op)
                elif collective == "reduce":
                    dist.reduce(vector, root, op)
                else:
                    dist.broadcast(vector, root)

            turn_in_place = bool(turn.in_place)
            scratch = None if target.numel() else torch.empty_like(source)
            return operation
        if collective == "all_gather":
            if turn.in_place:
                return None
            return lambda: dist.all_gather_into_tensor(target, source)
        if collective == "all_to_all":
            return lambda: dist.all_to_all_single(target, source)
        if collective == "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(target, source, op)
        parts = lambda tensor: list(tensor.chunk(turn_ranks)) if tensor.numel() else None  # noqa: E731
        turn_ranks = turn.ranks
        if collective == "gather":
            outputs = parts(target) if here else None
            return lambda: dist.gather(source, outputs, dst=root)
        if collective == "scatter":
            inputs = parts(source) if here else None
            return lambda: dist.scatter(target, inputs, src=root)
        return None

    def call(self):
        self.operation()


def run_rank(rank):
    contest = ctypes.CDLL(str(LIBRARY))
    contest.regroup_contest_run.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.POINTER(Functions)]
    driver = Driver()
    return contest.regroup_contest_run(rank, torch.__version__.encode(), ctypes.byref(driver.functions))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: torch.py RANKS")
    parent = os.getpid()
    children = []
    for rank in range(int(sys.argv[1])):
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            # Without Python's farewells: the group's threads still run.
            os._exit(run_rank(rank) if os.getppid() == parent else 1)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(1 if any(statuses) else 0)


if __name__ == "__main__":
    main()
