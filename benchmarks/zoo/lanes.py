"""
The cases in parallel, one on each GPU; whatever ends the benchmark ends what they started.

A lane takes a case, does what is missing of it, and takes the next. Its thread waits nowhere without looking
whether it has to stop, and each program it started is ended on its way out. What needs no GPU afterwards is
done by `Afterwards`, beside.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from programs import Stop, Stopped

_Item = TypeVar("_Item")

POLL_S = 0.1


def in_lanes(
    items: Sequence[_Item], gpus: Sequence[int], work: Callable[[_Item, int], None], *, stop: Stop
) -> None:
    """
    Call *work* with each of *items* and the GPU it may use, as many at once as there are *gpus*.

    Returns when all is done; an exception of one lane, or of the main thread, stops the others first.
    """
    waiting: queue.SimpleQueue[_Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    trouble: list[BaseException] = []

    def lane(gpu: int) -> None:
        try:
            while not stop.is_set():
                work(waiting.get_nowait(), gpu)
        except (queue.Empty, Stopped):
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again where the lanes are waited for
            trouble.append(error)
            stop.set()

    threads = [threading.Thread(target=lane, args=(gpu,), name=f"gpu {gpu}") for gpu in gpus]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            time.sleep(POLL_S)
    finally:
        if any(thread.is_alive() for thread in threads):
            stop.set()
        for thread in threads:
            thread.join()
    if trouble:
        raise trouble[0]


class Afterwards:
    """Does things beside, a few at a time, and in the end waits for them."""

    def __init__(self, at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._asked: list[Future[None]] = []

    def do(self, work: Callable[[], None]) -> None:
        self._asked.append(self._pool.submit(work))

    def wait(self) -> None:
        """Until everything is done; raises what went wrong first."""
        while not all(future.done() for future in self._asked):
            time.sleep(POLL_S)
        for future in self._asked:
            future.result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def afterwards(at_once: int, *, stop: Stop) -> Iterator[Afterwards]:
    """`Afterwards`, of which nothing is left: what runs is stopped if the block ends otherwise than well."""
    beside = Afterwards(at_once)
    try:
        yield beside
        beside.wait()
    except BaseException:
        stop.set()
        raise
    finally:
        beside.close()
