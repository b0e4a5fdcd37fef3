"""Tables of observations: what is read, and what is refused."""

import numpy as np
import pytest

from elmfield.io.formats.arrays import read_observations

MONTHS = "kind,t,t_low,t_high,along,value,noise\n" + "".join(
    f"mean,,{30 * k},{30 * k + 30},,{np.sin(k):.6f},0\n" for k in range(6)
)


def test_values_slopes_and_means(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "\ufeff" + MONTHS + "value,5,,,,0.1,0.5\nvalue,7,,,,0.1,\nslope,9,,,t,0.0,0.1\n"
    )
    found, axes = read_observations(path)
    assert axes == ("t",)
    assert [(o.kind, len(o)) for o in found] == [
        ("means", 6), ("values", 1), ("values", 1), ("derivatives", 1),
    ]  # fmt: skip
    assert found[0].is_exact
    assert found[2].noise is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n", "column `value`"),
        ("x,value\na,2\n", "'a' is not a number"),
        ("kind,x,value\nslope,1,2\n", "a slope says `along`"),
        ("kind,x,value\nmean,1,2\n", "need the column 'x_low'"),
    ],
)
def test_tables_that_are_refused(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_observations(path)
