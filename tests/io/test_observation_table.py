"""Tables of observations: what is read, and what is refused."""

import numpy as np
import pytest
from click.testing import CliRunner

import elmfield as ef
from elmfield.cli import cli
from elmfield.io.observation_table import read_observations

MONTHS = "kind,t,t_low,t_high,along,value,noise\n" + "".join(
    f"mean,,{30 * k},{30 * k + 30},,{np.sin(k):.6f},0\n" for k in range(6)
)


def test_values_slopes_and_means(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(MONTHS + "value,5,,,,0.1,0.5\nvalue,7,,,,0.1,\nslope,9,,,t,0.0,0.1\n")
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


def test_the_command(tmp_path):
    (tmp_path / "a.csv").write_text(MONTHS)
    words = ["fit", "--observations", str(tmp_path / "a.csv"), "--spacing", "1", "-o"]
    done = CliRunner().invoke(cli, [*words, str(tmp_path / "a.elm")])
    assert done.exit_code == 0, done.output
    field = ef.load(tmp_path / "a.elm")
    assert abs(field.integral([30], [60]) / 30 - np.sin(1)) < 1e-5
    assert CliRunner().invoke(cli, ["fit", "-o", str(tmp_path / "b.elm")]).exit_code != 0
