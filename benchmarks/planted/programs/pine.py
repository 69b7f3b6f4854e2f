import base

WORDS = [f"word{i % 997}" for i in range(30_000)]


def encode(words, known):
    ids = []
    for word in words:
        number = known.setdefault(word, len(known))
        if word.isalnum():
            ids.append(number)
    return ids


def main(argv=None):
    args = base.arguments(argv)
    net, optimizer, x, y = base.training()
    known = {}
    ids = encode(WORDS, known)
    for _ in base.steps(args.seconds):
        if not args.fixed:
            ids = encode(WORDS * 12, known)
        loss = (net(x) - y).square().mean() * (len(ids) / len(WORDS))
        base.update(optimizer, loss)


if __name__ == "__main__":
    main()
