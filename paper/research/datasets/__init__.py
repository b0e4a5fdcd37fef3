"""The data of the paper by name, each with its status and its terms.

``load(name)`` is the array, ``about(name)`` what is known of it, ``path(name)`` where its files
are; missing ones are downloaded to the user's cache and checked.
``python -m paper.research.datasets`` lists them all.
"""

from paper.research.datasets.catalogue import Dataset
from paper.research.datasets.files import File, MissingDataError
from paper.research.datasets.library import about, load, names, path, photographs, present
from paper.research.datasets.navier_stokes import vorticity
from paper.research.datasets.prepare import centre, grey, halved, resized

__all__ = [
    "Dataset",
    "File",
    "MissingDataError",
    "about",
    "centre",
    "grey",
    "halved",
    "load",
    "names",
    "path",
    "photographs",
    "present",
    "resized",
    "vorticity",
]
