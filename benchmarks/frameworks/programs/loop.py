"""
What the programs of this folder share: their options, and the loop.

As in most training loops the host runs ahead of the GPU, here by `IN_FLIGHT` steps at most.
"""

import argparse
import time
from collections import deque

CHECKED = 50
"""Steps after which the result is printed, however many there are."""

IN_FLIGHT = 4


def arguments(description):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--log", help="file for a line per step, for which the host then waits")
    return parser.parse_args()


def run(step, wait, told, args):
    """Repeat *step* for `args.seconds`; *wait* waits for what it returns, and *told* puts that in words."""
    ahead, number, rows = deque(), 0, []
    begun = time.monotonic()
    while number < CHECKED or time.monotonic() < begun + args.seconds:
        start_ns = time.time_ns()
        ahead.append(step())
        if args.log:
            wait(ahead[-1])
            rows.append((start_ns, time.time_ns()))
        number += 1
        if number == CHECKED:
            print(f"after {CHECKED} steps:", told(ahead[-1]), flush=True)
        if len(ahead) > IN_FLIGHT:
            wait(ahead.popleft())
    wait(ahead[-1])
    passed = time.monotonic() - begun
    print(f"{number} steps, {passed / number * 1e3:.3f} ms each", flush=True)
    if args.log:
        with open(args.log, "w") as file:
            file.writelines(f"{start} {end}\n" for start, end in rows)
