"""
How the agent gets into a program that runs already: Python 3.14 and later read a file when asked (PEP 768).

The recorder puts this file beside the agent, with a call of `_enter` at its end, and has the program's main
thread read it, between two of its statements. There is nothing but the start of a thread, for what a handler
of a signal raises meanwhile is lost: Python lets no exception out of here. That thread says in the meeting
place that the file was read, and loads the agent from *code*. A process to which the meeting place does not
belong has become somebody else's since it was asked, and does nothing. `sys.path` stays as it is, and so does
an agent that works for this recorder already; one of an earlier recorder is replaced, for it may be of
another version.
"""


def _enter(code, folder):  # type: ignore[no-untyped-def]
    import _thread

    def load(main):  # type: ignore[no-untyped-def]
        import os
        import sys

        try:
            if os.lstat(folder).st_uid not in (0, os.getuid()):
                return
            os.close(os.open(f"{folder}/entered-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            name, address = "_perfzero_agent", f"{folder}/agent"
            if getattr(sys.modules.get(name), "_begun", "") == address:
                return
            module = type(sys)(name)
            module.__file__ = f"{code}/{name}.py"
            with open(module.__file__, "rb") as file:
                compiled = compile(file.read(), module.__file__, "exec", dont_inherit=True)
            sys.modules[name] = module
            exec(compiled, module.__dict__)
            module.begin(address, main)
        except Exception:  # whatever is wrong with us must not be the program's trouble
            pass

    try:
        before = _thread.stack_size(1 << 20)  # to compile the agent takes more than a program may have set
        try:
            _thread.start_new_thread(load, (_thread.get_ident(),))
        finally:
            _thread.stack_size(before)
    except Exception:
        pass
