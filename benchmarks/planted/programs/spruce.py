import base
import torch


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    torch._dynamo.config.cache_size_limit = 1 << 20
    torch._dynamo.config.accumulated_cache_size_limit = 1 << 20
    fast = torch.compile(net, backend="eager", dynamic=False)
    for i in base.steps(args.seconds):
        n = len(x) if args.fixed else len(x) - i
        out = fast(x[:n])
        loss = (out - y[:n]).square().mean()
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
