"""How commands fit samples: presets and options, and the field of a model or of samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
import numpy as np

import elmfield as ef
from elmfield._array.typing import Array, Progress
from elmfield.cli import terminal
from elmfield.field import Field
from elmfield.io.files import is_model
from elmfield.io.gridded import Gridded
from elmfield.io.store.stores import is_url
from elmfield.settings import Settings

PRESETS: dict[str, Callable[..., Settings]] = {
    "smooth": ef.smooth,
    "oriented": ef.oriented,
    "paper": ef.paper,
}

ORIENTED_MAX_PIXELS = 4 << 20
"""Pixels up to which a picture is fitted with oriented(), unless a preset is asked for."""

preset_option = click.option(
    "--preset", type=click.Choice(list(PRESETS)),
    help="smooth: right between the samples too; oriented: regions choose directions, best for "
    "pictures; paper: the paper's network and least squares.",
)  # fmt: skip
samples_option = click.option(
    "--samples", type=click.Choice(["points", "means"]),
    help="What the numbers are: values at points, or means over their cells; by default what the "
    "file says, and pictures are means over their pixels.",
)  # fmt: skip
denoise_option = click.option(
    "--denoise", type=terminal.numbers(float, {"yes": True, "true": True, "auto": True}),
    metavar="yes|LEVEL",
    help="Take noise out: estimated, or this strong.",
)  # fmt: skip


@dataclass(frozen=True)
class SampleOptions:
    """How samples become a field, where a command takes samples or a model."""

    files: terminal.FileOptions
    preset: str | None = None
    samples: str | None = None
    denoise: float | bool | None = None

    def settings(self, given: Gridded) -> Settings | None:
        """The preset asked for; else oriented() for pictures that are not too large."""
        pixels = math.prod(given.shape)
        is_picture = given.labels.samples == "means" and pixels <= ORIENTED_MAX_PIXELS
        preset = "oriented" if self.preset is None and is_picture else self.preset
        noise = {} if self.denoise is None else {"denoise": self.denoise}
        if preset == "paper" and noise:
            raise click.UsageError("--denoise: only with --preset smooth or oriented.")
        return PRESETS[preset or "smooth"](**noise) if preset or noise else None

    def field(
        self, path: Path | str, progress: Progress, quiet: bool
    ) -> tuple[Field, Array | None]:
        """The field of a model, or of samples, which are fitted first; and these samples."""
        if is_url(path) or is_model(path):
            asked = [self.preset, self.samples, self.denoise]
            if any(o is not None for o in asked) or self.files.selects:
                raise click.UsageError(
                    f"{Path(path).name} is a model, which is fitted already; --preset, --samples, "
                    "--denoise and slices are for samples."
                )
            return ef.load(path), None
        given = self.files.read(Path(path))
        settings = self.settings(given)
        if not quiet:
            name = type(settings).__name__.lower() if settings is not None else "smooth"
            told = f"{Path(path).name}: samples, fitted first with --preset {name}"
            click.echo(f"{told}; `elmfield fit` keeps a model.", err=True)
        field = ef.fit(given, settings, samples=self.samples, progress=progress)
        return field, np.asarray(given.values)


def fit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of samples; it takes them as `how`, a SampleOptions."""

    @wraps(command)
    def call(*, files: Any, preset: Any, samples: Any, denoise: Any, **options: Any) -> None:
        command(how=SampleOptions(files, preset, samples, denoise), **options)

    wrapped = preset_option(samples_option(denoise_option(call)))
    return terminal.read_options(wrapped)
