"""Trained networks in files: their numbers in an NPZ archive, nothing that runs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from elmfield.domain import make_domain
from elmfield.errors import StoreError
from paper.research.baselines import methods
from paper.research.baselines.fitted import Fitted, Row
from paper.research.baselines.own import method_of

KIND = "elmfield baseline 1"
"""How a file of this kind begins."""


def save(model: Fitted, path: str | Path) -> None:
    """Write a trained network; the file's name ends in .npz.

    A network of your own is stored as its numbers alone; :func:`load` wants to be told how it is
    made.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"a trained network's file ends in .npz; got {path.name!r}.")
    published = type(model.method).__module__ == methods.__name__
    about = {
        "kind": KIND,
        "shape": list(model.shape),
        "channel_axis": model.channel_axis,
        "log": [list(row) for row in model.log],
        "precision": model.precision,
        "method": type(model.method).__name__ if published else None,
        "settings": asdict(model.method) if published else None,
    }
    state = model.network.state()
    np.savez_compressed(
        path,
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        offset=model.offset,
        scale=model.scale,
        **{f"network/{k}": v for k, v in state.items()},
    )


def load(path: str | Path, method: Any = None) -> Fitted:
    """A trained network from a file of :func:`save`.

    Parameters
    ----------
    path : str or path
        The file.
    method : optional
        How a network of your own is made, as for :func:`fit`; the published ones know it.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {k: file[k] for k in file.files}
        about = json.loads(bytes(arrays.pop("about")).decode())
        if about["kind"] != KIND:
            raise ValueError(f"it is of kind {about['kind']!r}")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise StoreError(f"{path.name} is no file of a trained network: {error}.") from error
    if about["method"] is None and method is None:
        raise ValueError(
            f"{path.name} holds a network of somebody's own; say how it is made: "
            "load(path, method)."
        )
    chosen = method_of(method) if method is not None else _published(about)
    offset, scale = arrays.pop("offset"), arrays.pop("scale")
    network = chosen.network(about["shape"], len(offset), np.random.default_rng(0))
    network.restore({k.removeprefix("network/"): v for k, v in arrays.items()})
    return Fitted(
        domain=make_domain(about["shape"]),
        network=network,
        method=chosen,
        offset=offset,
        scale=scale,
        channel_axis=about["channel_axis"],
        log=tuple(Row(*row) for row in about["log"]),
        precision=about["precision"],
        home=np.empty(0),
    )


def _published(about: dict[str, Any]) -> Any:
    """The settings of a published method, by the name of their class."""
    known = {c.__name__: c for c in (methods.SIREN, methods.FFN, methods.GaussNet, methods.WIRE)}
    known["HashGrid"] = methods.HashGrid  # type: ignore[assignment]
    if about["method"] not in known:
        raise StoreError(f"a method called {about['method']!r} is not known to this elmfield.")
    return known[about["method"]](**about["settings"])
