"""The ledger of iterations: recordings of a program and its successors side by side."""
