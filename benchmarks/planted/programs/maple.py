import gc

import base


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    cache = [{"row": [i], "of": {i}} for i in range(800_000)]
    for i in base.steps(args.seconds):
        loss = (net(x) - y).square().mean()
        base.update(optimizer, loss)
        if i % 10 == 9 and not args.fixed:
            gc.collect()
    assert len(cache)


if __name__ == "__main__":
    main()
