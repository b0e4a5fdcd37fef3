"""
The slope of a noisy series
===========================

Differences of noisy samples are mostly noise. The derivative of a denoised field is not.
"""

import matplotlib.pyplot as plt
import numpy as np

import elmfield as ef

t = np.linspace(0, 10, 400)
truth, slope = np.sin(t) + 0.2 * t, np.cos(t) + 0.2
samples = truth + np.random.default_rng(0).normal(0, 0.1, t.size)

field = ef.fit(samples, ef.smooth(denoise=True), dims=["time"], coords={"time": t})

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, layout="constrained")
top.plot(t, samples, ".", ms=3, label="samples")
top.plot(t, field.grid(t), label="field")
top.legend()
bottom.plot(t, np.gradient(samples, t), lw=0.5, label="numpy.gradient")
bottom.plot(t, field.gradient(t[:, None])[:, 0], label="field.gradient")
bottom.plot(t, slope, "k--", lw=1, label="truth")
bottom.set(ylim=(-2.5, 3), xlabel="time", ylabel="slope")
bottom.legend()
