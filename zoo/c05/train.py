import argparse
import random
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence


class Classifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(20_000, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 20)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(dim=1))


def clip_gradients(parameters, max_norm, fixed):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    coefficient = max_norm / (norm + 1e-6)
    if fixed:
        coefficient = coefficient.clamp(max=1.0)
    else:
        if norm.isnan() or norm.isinf():
            raise RuntimeError("the gradients are not finite")
        if coefficient >= 1:
            return norm
    for g in grads:
        g.mul_(coefficient)
    return norm


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    random.seed(0)
    size, width = (512, 896) if device == "cuda" else (4, 32)

    documents = [random.choices(range(20_000), k=random.randint(96, 128)) for _ in range(8000)]
    topics = [random.randrange(20) for _ in documents]
    model = Classifier(width, 2).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        chosen = random.sample(range(len(documents)), size)
        tokens = pad_sequence([torch.tensor(documents[i]) for i in chosen], batch_first=True)
        labels = torch.tensor([topics[i] for i in chosen])
        if device == "cuda":
            tokens, labels = tokens.pin_memory(), labels.pin_memory()
        tokens, labels = tokens.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        loss = functional.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        norm = clip_gradients(model.parameters(), 1.0, args.fixed)
        optimizer.step()
        step += 1
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
