"""A torch module of the caller's own, with the members that training asks of a network."""

import math
from typing import Any

import torch

from elmfield._array.typing import Array


class Module:
    """What training and evaluation ask of a network, asked of a `torch.nn.Module`."""

    def __init__(self, module: Any, d: int, channels: int) -> None:
        if not isinstance(module, torch.nn.Module):
            raise TypeError(
                f"a method of your own must make a torch.nn.Module; got a {type(module).__name__}."
            )
        self.module = module.float()
        with torch.no_grad():
            found = self.module(torch.zeros(2, d))
        if tuple(found.shape) != (2, channels):
            raise ValueError(
                f"the module must map points of shape (n, {d}) to values of shape (n, {channels}); "
                f"for n = 2 it gave shape {tuple(found.shape)}."
            )
        if not self.parameters:
            raise ValueError("the module has nothing to train: no parameter that needs a gradient.")

    @property
    def parameters(self) -> list[Any]:
        """Tensors that are trained."""
        return [p for p in self.module.parameters() if p.requires_grad]

    @property
    def n_parameters(self) -> int:
        """Real numbers that are trained; a complex one counts twice."""
        return sum(p.numel() * (2 if p.is_complex() else 1) for p in self.parameters)

    @property
    def width(self) -> int:
        """Numbers held for a point, about: eight layers as wide as the widest."""
        return 8 * max(p.shape[0] if p.ndim else 1 for p in self.parameters)

    def to(self, device: Any) -> "Module":
        """The same network, moved."""
        self.module = self.module.to(device)
        return self

    def prepare(self, x: Array) -> Array:
        """The points as they are."""
        return x

    def __call__(self, prepared: Array) -> Array:
        """Values, shape (n, C)."""
        return self.module(prepared)

    def state(self) -> dict[str, Array]:
        """All that makes the function, by name, on the host."""
        return {k: v.detach().cpu().numpy() for k, v in self.module.state_dict().items()}

    def restore(self, state: dict[str, Array]) -> None:
        """Take up what :meth:`state` gave."""
        own = self.module.state_dict()
        wrong = set(own) ^ set(state)
        if wrong or any(math.prod(own[k].shape) != state[k].size for k in own):
            raise ValueError(
                "the file was written for another network: its tensors do not fit "
                f"({', '.join(sorted(wrong)) or 'other shapes'})."
            )
        self.module.load_state_dict({k: torch.as_tensor(v) for k, v in state.items()})
