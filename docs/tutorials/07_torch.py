"""
Inside torch
============

A tensor gives a field of tensors on its device. Values can be differentiated by the points and by the
samples. Needs the extra ``torch``.
"""

# %%
# Tensors in, tensors out
# -----------------------

import matplotlib.pyplot as plt
import torch
from skimage.data import camera

import elmfield as ef

device = "cuda" if torch.cuda.is_available() else "cpu"
picture = torch.tensor(camera()[60:188, 190:318] / 255.0, dtype=torch.float32, device=device)
field = ef.fit(picture)
points = torch.rand(5, 2, device=device) * 127
field(points)

# %%
# `Field.to` moves a field between libraries and devices: ``field.to("cuda")``, ``field.to("numpy")``.
#
# By the points
# -------------
#
# First and second derivatives by the points are exact, so a field can be used for registration: here
# the offset of a template is found by descent.

offset = torch.tensor([3.0, -4.0], device=device)
rows, columns = torch.meshgrid(
    torch.arange(40.0, 90.0, device=device), torch.arange(40.0, 90.0, device=device), indexing="ij"
)
grid = torch.stack([rows, columns], dim=-1)
template = field(grid + offset)

guess = torch.zeros(2, device=device, requires_grad=True)
optimizer = torch.optim.LBFGS([guess], line_search_fn="strong_wolfe", max_iter=30)
way = []


def closure():
    optimizer.zero_grad()
    loss = ((field(grid + guess) - template) ** 2).mean()
    loss.backward()
    way.append(guess.detach().cpu().clone())
    return loss


optimizer.step(closure)
print("found", guess.detach().cpu().numpy(), "after", len(way), "evaluations")

# %%
# .

way = torch.stack(way).numpy()
figure, a = plt.subplots(figsize=(4.5, 4), layout="constrained")
a.plot(way[:, 1], way[:, 0], "o-", ms=4)
a.plot(-4, 3, "x", ms=12)
_ = a.set(xlabel="column offset", ylabel="row offset", title="steps to the offset")

# %%
# By the samples
# --------------
#
# With a given order the fit is linear in the samples, and torch differentiates through it: samples
# may be the output of a network.

samples = torch.zeros(12, 12, dtype=torch.float64, requires_grad=True)
value = ef.fit(samples, ef.smooth(order=2))(torch.tensor([5.5, 6.25], dtype=torch.float64))
value.backward()
print("weights of the samples sum to", float(samples.grad.sum()))

# %%
# As a module
# -----------
#
# `Field.module` is a ``torch.nn.Module`` whose parameters are the field's coefficients. It has a
# ``state_dict``, compiles in one graph, and works under ``torch.func.vmap`` and ``jacrev``.

module = field.module()
print([(name, tuple(p.shape)) for name, p in module.named_parameters()])
torch.func.vmap(torch.func.jacrev(module))(points).shape

# %%
# Many points, fast
# -----------------
#
# `Field.tabulate` makes a table of polynomials that is certified to lie within a tolerance of the
# field, for as many lookups as you like.

table = field.tabulate(1e-4)
print(table)
print("largest difference:", float((table(points) - field(points)).abs().max()))

# %%
# How fast all of this is, on a processor and on a GPU: :doc:`/speed`.
