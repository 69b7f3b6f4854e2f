import argparse
import itertools
import time

import torch

CORNERS = list(itertools.product((0, 1), repeat=3))


class MeshPotential:
    def __init__(self, mesh, device, fixed):
        self.mesh, self.fixed = mesh, fixed
        ticks = torch.fft.fftfreq(mesh, 1 / mesh, device=device)
        half = torch.fft.rfftfreq(mesh, 1 / mesh, device=device)
        self.waves = torch.stack(torch.meshgrid(ticks, ticks, half, indexing="ij"))
        self.density = torch.zeros(mesh**3, device=device)

    def update_cell(self, lengths):
        volume = lengths.prod()
        self.volume = volume if self.fixed else volume.item()
        squares = ((2 * torch.pi * self.waves / lengths.view(3, 1, 1, 1)) ** 2).sum(dim=0)
        self.kernel = torch.where(squares == 0, 0.0, 4 * torch.pi * torch.exp(-squares / 8) / squares)

    def weigh(self, positions, lengths):
        at = positions / lengths * self.mesh
        node = at.floor()
        rest = at - node
        for corner in CORNERS:
            shift = torch.stack([rest[:, d] if c else 1 - rest[:, d] for d, c in enumerate(corner)])
            x, y, z = ((node[:, d] + c).long() % self.mesh for d, c in enumerate(corner))
            yield (x * self.mesh + y) * self.mesh + z, shift.prod(dim=0)

    def __call__(self, positions, charges, lengths):
        self.update_cell(lengths)
        places = list(self.weigh(positions, lengths))
        self.density.zero_()
        for index, share in places:
            self.density.index_add_(0, index, charges * share)
        spectrum = torch.fft.rfftn(self.density.view(self.mesh, self.mesh, self.mesh))
        field = torch.fft.irfftn(spectrum * self.kernel / self.volume * self.mesh**3).flatten()
        return sum(field[index] * share for index, share in places) * charges


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    particles, mesh = (4000, 32) if device == "cuda" else (100, 8)

    lengths = torch.full((3,), 20.0, device=device)
    positions = torch.rand(particles, 3, device=device) * lengths
    charges = torch.randn(particles, device=device)
    energy = torch.zeros((), device=device)
    potential = MeshPotential(mesh, device, args.fixed)

    def advance():
        energy.copy_(potential(positions, charges, lengths).sum())
        positions.add_(0.01 * torch.sin(positions))
        lengths.mul_(1 + 1e-6 * torch.tanh(energy))

    run = advance
    if args.fixed and device == "cuda":
        advance()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            advance()
        run = graph.replay
    step, end = 0, time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        run()
        step += 1
        if step % 100 == 0:
            print(f"step {step} energy {energy.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
