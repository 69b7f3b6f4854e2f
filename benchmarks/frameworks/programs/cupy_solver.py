"""
A loop in CuPy: a product, element-wise work, a Fourier transform and reductions; 10 ms per step (H200).

    python benchmarks/frameworks/programs/cupy_solver.py --seconds 25 [--log FILE]

Prints the residual after 50 steps, to the last digit: it is the same in each run. Into FILE goes a line for
each step: Unix time in ns at its beginning and at its end, when all of its kernels have run.
"""

import loop


def main():
    import cupy

    args = loop.arguments(__doc__)
    size = 4096
    random = cupy.random.RandomState(0)
    matrix = random.standard_normal((size, size), dtype=cupy.float32) / size
    state = random.standard_normal((size, size), dtype=cupy.float32)
    wave = cupy.exp(-cupy.fft.rfftfreq(size).astype(cupy.float32) * 8)

    def step():
        nonlocal state
        moved = matrix @ state
        smooth = cupy.fft.irfft(cupy.fft.rfft(moved, axis=1) * wave, n=size, axis=1).astype(cupy.float32)
        state = cupy.tanh(0.5 * state + smooth + 0.1)
        state = state - state.mean(axis=0)
        return cupy.abs(state).sum()

    def wait(_):
        cupy.cuda.get_current_stream().synchronize()

    loop.run(step, wait, lambda residual: repr(float(residual)), args)


if __name__ == "__main__":
    main()
