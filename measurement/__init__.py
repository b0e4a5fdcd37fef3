"""What ``paper/`` and ``benchmarks/`` share: how numbers are measured, recorded and shown.

- `data`: names of data sets, and the paper's printed numbers that both folders stand beside.
- `heldout`: fit every second sample, score the others.
- `rivals`: splines, block cosines, denoisers and gap fillers of other libraries.
- `records`: JSON under ``results/``, each number with its circumstances.
- `samples`: arrays as the codec's measurements and its training take them.
- `tables`: Markdown.

No part of the library: scripts put the repository on their path and import it from there.
"""
