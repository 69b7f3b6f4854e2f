import base
import torch


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    cuda = base.DEVICE == "cuda"
    rows = torch.zeros(1 << 25 if cuda else 1 << 20)
    if args.fixed and cuda:
        rows = rows.pin_memory()
    for _ in base.steps(args.seconds):
        if args.fixed:
            batch = rows.to(base.DEVICE, non_blocking=True)
        else:
            batch = rows.to(base.DEVICE)
        loss = (net(x) + batch[0] - y).square().mean()
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
