import base
import torch

ROWS = [(i * 7919) % 10007 for i in range(200_000)]


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    cuda = base.DEVICE == "cuda"
    events = [torch.cuda.Event() for _ in range(3)] if cuda else []
    best = 0
    for i in base.steps(args.seconds):
        loss = (net(x) - y).square().mean()
        base.update(optimizer, loss)
        if cuda:
            events[i % 3].record()
            events[(i + 1) % 3].synchronize()
        if i % 5 == 4 and not args.fixed:
            best = max(sorted([*ROWS, best]) + sorted(ROWS, key=str))


if __name__ == "__main__":
    main()
