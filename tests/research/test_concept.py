"""The paper's concept figure."""

import numpy as np
import pytest

import elmfield as ef

pytest.importorskip("matplotlib")
from paper.research import concept


def test_the_concept_figure():
    toy = concept.toy_field(64)
    assert toy[-1, 31] == pytest.approx(
        np.sin(8 * np.pi * (63.5 / 64) ** 3) * np.sin(np.pi * 31.5 / 64)
    )
    meshes = {
        "regular": ef.Partition.regular(toy.shape, 16),
        "BEAM": ef.beam(toy, cell=8, regions=16),
    }
    axes = concept.draw_balance(toy, meshes)
    assert [a.get_title() for a in axes] == ["regular, N = 16", "BEAM, N = 16", ""]
    texts = [t.get_text() for t in axes[-1].get_legend().get_texts()]
    beta = ef.barron_norm(toy, partition=meshes["BEAM"])
    assert texts[1] == (
        f"BEAM: max / median {beta.max() / np.median(beta):.1f}, "
        f"variation {beta.std() / beta.mean():.2f}"
    )
    axes[0].figure.canvas.draw()


def test_axes_are_one_per_partition_and_one_more():
    regular = ef.Partition.regular((8, 9), 4)
    with pytest.raises(ValueError, match="one per partition and one more, 2; got 1"):
        concept.draw_balance(np.ones((8, 9)), {"a": regular}, [None])
