"""Many frames through a GPU: copies to the device and back, beside the work on the frame between.

    python benchmarks/scale_device.py                       the device that there is
    python benchmarks/scale_device.py --side 8192 --frames 24

Each frame is fitted on the device and shown at half its size, there; the result comes back. First
one after the other, then with three streams: while a frame is worked on, the next one is on its way
there and the last one on its way back. Needs NumPy, SciPy and torch alone. Writes
``results/scale-<device>.json``.
"""

import argparse

import numpy as np
import torch

import elmfield as ef
from common import record
from measurement.records import shortest


def frame(side, k):
    """Waves, another picture for each k."""
    i, j = torch.arange(side)[:, None], torch.arange(side)
    return 280 + 12 * (torch.sin(i / 17 + torch.sin(j / 29) + k) + torch.cos(j / 41 + i / 97))


class Through:
    """Frames in pinned memory, and what is done to each on a device."""

    def __init__(self, side, count, device):
        self.device, self.is_cuda = device, device.startswith("cuda")
        kinds = [frame(side, k).to(torch.float32) for k in range(4)]
        self.frames = [self._pinned(kinds[k % 4]) for k in range(count)]
        self.encode = ef.encoder((side, side), ef.smooth(order=2))
        self.half = (side // 2, side // 2)
        self.out = [self._pinned(torch.empty(self.half)) for _ in range(3)]

    def _pinned(self, x):
        return x.pin_memory() if self.is_cuda else x

    def wait(self):
        """Until the device has done what it was given."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def work(self, x):
        """Fitted, and at half the size."""
        return self.encode(x).resize(self.half)

    def copied(self):
        """Copies alone, there and back."""
        for x in self.frames:
            y = x.to(self.device, non_blocking=True)
            self.out[0].copy_(y[: self.half[0], : self.half[1]], non_blocking=True)
        self.wait()

    def worked(self):
        """Work alone, on a frame that is there."""
        x = self.frames[0].to(self.device)
        for _ in self.frames:
            self.work(x)
        self.wait()

    def in_turn(self):
        """One after the other."""
        for x in self.frames:
            self.out[0].copy_(self.work(x.to(self.device)))
        self.wait()

    def overlapped(self):
        """With a stream for each way and one for the work; on the processor, in turn."""
        if not self.is_cuda:
            self.in_turn()
            return
        here = torch.cuda.current_stream()
        there, back = torch.cuda.Stream(), torch.cuda.Stream()

        def sent(x):
            with torch.cuda.stream(there):
                y = x.to(self.device, non_blocking=True)
            return y, there.record_event()

        coming = sent(self.frames[0])
        for k in range(len(self.frames)):
            x, arrived = coming
            if k + 1 < len(self.frames):
                coming = sent(self.frames[k + 1])
            here.wait_event(arrived)
            x.record_stream(here)
            y = self.work(x)
            back.wait_event(here.record_event())
            with torch.cuda.stream(back):
                self.out[k % 3].copy_(y, non_blocking=True)
            y.record_stream(back)
        self.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    words = parser.parse_args()
    through = Through(words.side, words.frames, words.device)
    through.in_turn()  # tables that do not depend on samples are made once
    wanted = through.work(through.frames[-1].to(words.device)).cpu()
    row = {"side": words.side, "frames": words.frames}
    for name in ("copied", "worked", "in_turn", "overlapped"):
        row[name] = shortest(getattr(through, name), wait=through.wait) / words.frames
    found = through.out[(words.frames - 1) % 3 if through.is_cuda else 0]
    row["difference"] = float(np.abs((found - wanted).numpy()).max())
    print(row, flush=True)
    kind = "cuda" if through.is_cuda else "cpu"
    record(f"scale-{kind}", "device", [row], device=words.device)


if __name__ == "__main__":
    main()
