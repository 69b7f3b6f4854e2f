"""
How the agent gets into the observed program.

perfzero starts it with this folder first on PYTHONPATH, so every Python in it reads this file, whatever its
version: it must stay valid for all of them. It hands over to the sitecustomize that would have been read
without us, and takes this folder off the path again: the program sees neither.
"""

import sys


def _hand_over():  # type: ignore[no-untyped-def]
    here = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the other one
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


try:
    if sys.version_info >= (3, 8):
        import _perfzero_agent  # type: ignore[import-not-found]

        _perfzero_agent.begin()
except Exception:  # whatever is wrong with us must not be the program's trouble
    pass
_hand_over()  # type: ignore[no-untyped-call]
