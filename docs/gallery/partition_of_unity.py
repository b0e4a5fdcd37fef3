"""
Windows that sum to one
=======================

Each cell has a model of its own. Windows blend them; everywhere they sum to one, so nothing is
normalised afterwards.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef
from elmfield.partition.windows import blend

samples = np.sin(np.arange(48) / 3.5) + 0.3 * np.sin(np.arange(48) / 1.3)
field = ef.fit(samples, ef.smooth(cell=12, overlap=3))
partition = field.partition
x = np.linspace(-0.5, 47.5, 800)

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
top.plot(x, field.grid(x))
top.plot(samples, "o", ms=4)
top.set_title("the field, and its samples")
here = blend(partition, 0, x)  # the two cells that reach each place, and the upper one's weight
(rising,) = here.ramp
for cell in range(partition.n_regions):
    weight = np.where(here.upper == cell, rising, 0) + np.where(here.lower == cell, 1 - rising, 0)
    bottom.fill_between(x, weight, alpha=0.4)
_ = bottom.set(title=f"windows of {partition.n_regions} regions", xlabel="sample")
