"""Every command on 30 kinds of bad input: a code of the table, one sentence, no traceback."""

import errno
import json
import os
import shlex
import struct
import subprocess
import sys
import threading
import zipfile
import zlib

import numpy as np
import pytest

import elmfield as ef
from elmfield.cli import main
from elmfield.io.formats.raster import png

COMMANDS = {
    "fit": "fit {} -o out.elm",
    "info": "info {}",
    "render": "render {} -o out.png",
    "render like": "render good.elm -o out.tif --like {}",
    "query": "query {} --at 1,2",
    "query points": "query good.elm --points {}",
    "compare": "compare {} good.elm",
    "compare model": "compare good.png {}",
    "beam": "beam {} --regions 3",
    "view": "view {} --export page --no-open",
    "demo": "demo --output good.png/{}",
    "compile": "compile {}",
    "completion": "completion {}",
}


def bomb(width, height):
    """A small PNG file that claims many pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1 << 16))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good files, and 30 bad ones."""
    import tifffile

    root = tmp_path_factory.mktemp("bad")
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (12, 14), dtype=np.uint8)
    good = {"good.png": png(picture)}
    ef.save(ef.fit(picture), root / "good.elm")
    model = (root / "good.elm").read_bytes()
    tifffile.imwrite(root / "good.tif", picture)
    tiff = (root / "good.tif").read_bytes()
    np.save(root / "texts.npy", np.asarray(["a", "b"]))
    np.save(root / "objects.npy", np.asarray([{}], dtype=object), allow_pickle=True)
    np.save(root / "nan.npy", np.full((5, 5), np.nan))
    np.save(root / "huge.npy", np.full((5, 5), 1.7e308))
    np.save(root / "none.npy", np.empty((0, 4)))
    np.save(root / "scalar.npy", np.float64(3))
    bad = {
        "empty.png": b"",
        "empty.elm": b"",
        "empty.nc": b"",
        "empty.csv": b"",
        "bytes.png": rng.bytes(500),
        "bytes.elm": rng.bytes(500),
        "bytes.tif": rng.bytes(500),
        "bytes.nc": rng.bytes(500),
        "bytes.npy": rng.bytes(500),
        "bytes.wav": rng.bytes(500),
        "bytes.nii": rng.bytes(500),
        "bytes.csv": rng.bytes(500),
        "cut.png": good["good.png"][:90],
        "cut.elm": model[: len(model) // 2],
        "cut.tif": tiff[: len(tiff) // 2],
        "turned.elm": model[::-1],
        "bomb.png": bomb(30_000, 30_000),
        "picture.elm": good["good.png"],
        "model.png": model[:-30],
        "long.csv": b"row,column\n" + b"1" * 200_000 + b",2\n",
        "no.such": b"x",
    }
    for name, data in (good | bad).items():
        (root / name).write_bytes(data)
    with zipfile.ZipFile(root / "other.elm", "w") as archive:
        archive.writestr("zarr.json", json.dumps({"attributes": {"elmfield": {"format": 1}}}))
    (root / "folder.elm.zarr").mkdir()
    (root / "folder.png").mkdir()
    (root / "loop.elm").symlink_to("loop.elm")
    (root / "endless.elm").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe.elm")
    return root


BAD = [
    "empty.png", "empty.elm", "empty.nc", "empty.csv", "bytes.png", "bytes.elm", "bytes.tif",
    "bytes.nc", "bytes.npy", "bytes.wav", "bytes.nii", "bytes.csv", "cut.png", "cut.elm",
    "cut.tif", "turned.elm", "bomb.png", "picture.elm", "model.png", "long.csv", "no.such",
    "other.elm", "folder.elm.zarr", "folder.png", "loop.elm", "texts.npy", "objects.npy",
    "nan.npy", "huge.npy", "none.npy", "scalar.npy", "nowhere.png", "nowhere.elm",
    "/dev/zero", "endless.elm", "pipe.elm",
]  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input_has_a_code_and_a_sentence(command, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    before = sorted(os.listdir())
    assert len(BAD) >= 30
    # A table of points may well come through a pipe.
    for name in BAD[:-1] if command == "query points" else BAD:
        with pytest.raises(SystemExit) as left:
            main(COMMANDS[command].format(name).split())
        told = capfd.readouterr().err
        assert left.value.code in (1, 2, 3, 4), (name, told)
        assert "Traceback" not in told
        assert "should not have" not in told, (name, told)
        last = [line for line in told.strip().splitlines() if line.startswith("Error: ")]
        assert len(last) == 1, (name, told)
        assert sorted(os.listdir()) == before, name


def test_points_may_come_through_a_pipe(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    writer = threading.Thread(target=lambda: (folder / "pipe.elm").write_text("1,2\n3,4\n"))
    writer.start()
    with pytest.raises(SystemExit) as left:
        main(["query", "good.elm", "--points", "pipe.elm"])
    writer.join()
    assert left.value.code == 0
    assert len(capfd.readouterr().out.splitlines()) == 3


def test_debug_shows_where(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit):
        main(["info", "cut.elm", "--debug"])
    assert "Traceback" in capfd.readouterr().err


def test_what_nobody_foresaw_is_one_sentence(folder, monkeypatch, capfd):
    def fails(*_, **__):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("elmfield.cli.model_commands.open_store", fails)
    with pytest.raises(SystemExit) as left:
        main(["info", "good.elm"])
    assert left.value.code == 1
    assert "(ZeroDivisionError: by zero). --debug shows where" in capfd.readouterr().err


def test_a_broken_connection_is_a_failure(folder, monkeypatch, capfd):
    def fails(*_, **__):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("elmfield.cli.model_commands.open_store", fails)
    with pytest.raises(SystemExit) as left:
        main(["info", "good.elm"])
    assert left.value.code == 3
    assert "a connection was closed: [Errno 32] Broken pipe" in capfd.readouterr().err


def test_a_bomb_can_be_allowed(folder):
    with pytest.raises(ValueError, match="claims 900000000 pixels"):
        ef.read(folder / "bomb.png")
    with pytest.raises(ValueError, match="at most 100 are allowed"):
        ef.read(folder / "good.png", max_pixels=100)
    assert ef.read(folder / "good.png", max_pixels=168).values.shape == (12, 14)


def _command(*words):
    return [sys.executable, "-c", "from elmfield_command import main; main()", *words]


def _in_shell(words, streams, folder, **options):
    """Run the command in a shell, with its streams connected as `streams` says."""
    line = f"set -o pipefail; {shlex.join(_command(*words.split()))} {streams}"
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=100, **options
    )


@pytest.mark.slow
def test_a_reader_may_stop_early(folder):
    points = "\n".join(f"{k % 11},{k % 13}" for k in range(40_000))
    ran = _in_shell("query good.elm --points -", "| head -1", folder, input=points)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "axis0,axis1,value\n", "")


@pytest.fixture
def unread():
    """The writing end of a pipe that has no reader."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="closes streams as a Unix shell does")
@pytest.mark.parametrize(
    ("words", "streams", "code"),
    [
        ("info good.elm", ">&UNREAD", 0),
        ("--help", ">&UNREAD", 0),
        ("fit good.png -o new.elm", ">&UNREAD 2>&UNREAD", 0),
        ("frobnicate", "2>&UNREAD", 2),
        ("fit good.png -o new.elm", "<&- >&- 2>&-", 0),
        ("query good.elm --points -", "<&-", 1),
        ("info good.elm", "> /dev/full", 3),
    ],
)
def test_closed_streams_are_no_failure(folder, words, streams, code, unread):
    """The work is done, the exit code is that of the work, and there is no traceback."""
    ran = _in_shell(words, streams.replace("UNREAD", str(unread)), folder, pass_fds=[unread])
    made = {p: p.stat().st_size for p in folder.glob("new.*")}
    for path in made:
        path.unlink()
    assert (ran.returncode, min(made.values(), default=0) > 0) == (code, " new." in words)
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", ["fit good.png -o new.elm", "--help"])
def test_terminals_that_know_ascii_only(folder, words):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    ran = subprocess.run(
        _command(*words.split()), cwd=folder, env=environment, capture_output=True, timeout=100
    )
    (folder / "new.elm").unlink(missing_ok=True)
    assert ran.returncode == 0, ran.stderr
    ran.stdout.decode("ascii")
