"""Damaged and hostile model files: the right answer or a StoreError, and little memory."""

import dataclasses
import json
import resource
import shutil
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile

import numpy as np
import pytest

import elmfield as ef
from elmfield.codec import pack
from elmfield.io.store.stores import ZipStore
from robust.damage import write_archive
from support import on_samples

ROUGH = np.random.default_rng(0).standard_normal((40, 50)).cumsum(0).cumsum(1)
FIELDS = {
    "smooth": ef.fit(ROUGH),
    "coded": ef.fit(np.stack([ROUGH, -ROUGH[::-1]], -1), ef.smooth(psnr=45), channel_axis=-1),
    "gaps": ef.fit(np.where(ROUGH > 0, ROUGH, np.nan), ef.smooth(max_error=0.5)),
    "targets": ef.fit(
        np.stack([ROUGH, -ROUGH[::-1]], -1), ef.smooth(coefficients=900), channel_axis=-1
    ),
    "paper": ef.fit(ROUGH, ef.paper(cell=20, width=50)),
    "beam": ef.fit(ROUGH, ef.paper(width=40), partition=ef.beam(ROUGH, cell=10, regions=7)),
}


@pytest.fixture(params=FIELDS)
def model(request, tmp_path):
    """A model file, and what it must answer."""
    field = FIELDS[request.param]
    path = tmp_path / "model.elm"
    ef.save(field, path)
    return path, on_samples(field)


def survives(path, truth):
    """Whether the file was refused; if not, its answer must be right."""
    try:
        field = ef.load(path)
        field.samples()
        answer = on_samples(field)
    except ef.StoreError:
        return False
    np.testing.assert_allclose(answer, truth, rtol=0, atol=1e-9 * np.abs(truth).max())
    return True


def test_a_truncated_file_is_refused(model):
    path, truth = model
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    for cut in [0, 1, len(data) - 1, *rng.integers(0, len(data), 50)]:
        path.write_bytes(data[: int(cut)])
        assert not survives(path, truth)


@pytest.mark.slow
def test_flipped_bits_are_noticed_or_do_not_matter(model):
    path, truth = model
    data = path.read_bytes()
    rng = np.random.default_rng(2)
    refused = 0
    for place in rng.integers(0, len(data), 100):
        bad = bytearray(data)
        bad[int(place)] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(bad))
        refused += not survives(path, truth)
    assert refused > 60  # what is not noticed lies in times and permissions of entries


@pytest.mark.slow
def test_whole_bytes_and_runs_of_them_are_noticed_too(model):
    path, truth = model
    data = path.read_bytes()
    rng = np.random.default_rng(3)
    for place in rng.integers(0, len(data), 60):
        bad = bytearray(data)
        n = int(rng.integers(1, 64))
        bad[int(place) : int(place) + n] = rng.bytes(n)
        path.write_bytes(bytes(bad[: len(data)]))
        survives(path, truth)


@pytest.mark.slow
def test_flipped_bits_in_a_folder(tmp_path):
    field = FIELDS["targets"]
    path = tmp_path / "model.elm.zarr"
    ef.save(field, path)
    truth = field.samples()
    files = sorted(p for p in path.rglob("*") if p.is_file())
    rng = np.random.default_rng(4)
    for _ in range(100):
        file = files[int(rng.integers(len(files)))]
        data = file.read_bytes()
        bad = bytearray(data)
        bad[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(bad))
        survives(path, truth)
        file.write_bytes(data)


@pytest.mark.slow
def test_every_byte_of_a_folders_metadata_is_covered(tmp_path):
    field = FIELDS["smooth"]
    path = tmp_path / "model.elm.zarr"
    ef.save(field, path)
    file = path / "zarr.json"
    data, truth, refused = file.read_bytes(), field.samples(), 0
    for place in range(0, len(data), 3):
        bad = bytearray(data)
        bad[place] ^= 1 << (place % 7)
        file.write_bytes(bytes(bad))
        refused += not survives(path, truth)
    assert refused > 0.9 * len(range(0, len(data), 3))  # Zarr's own words are not ours to check


# --- files that lie -------------------------------------------------------------------------------


def rewrite(path, change, key="zarr.json", method=zipfile.ZIP_STORED):
    """The same archive with one entry passed through `change` (None: left out)."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    changed = change(entries[key])
    if changed is None:
        del entries[key]
    else:
        entries[key] = changed
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def edit(*steps, value):
    """A change of one place in the metadata."""

    def change(data):
        found = json.loads(data)
        place = found["attributes"]["elmfield"]
        for step in steps[:-1]:
            place = place[step]
        place[steps[-1]] = value
        found["attributes"]["elmfield"].pop("digest", None)  # a liar can count, too
        return json.dumps(found).encode()

    return change


@pytest.fixture
def smooth(tmp_path):
    path = tmp_path / "model.elm"
    ef.save(FIELDS["smooth"], path)
    return path


def test_a_newer_version_is_told_apart_from_damage(smooth):
    rewrite(smooth, edit("version", value=7))
    with pytest.raises(ef.StoreVersionError, match="format version 7; this elmfield reads up to 1"):
        ef.load(smooth)


@pytest.mark.parametrize("value", [0, -1, "1", None, 1.5, True, [1]])
def test_a_version_that_is_none(smooth, value):
    rewrite(smooth, edit("version", value=value))
    with pytest.raises(ef.StoreError, match="format version"):
        ef.load(smooth)


LIES = [
    ("domain", "axes", 0, "size", 1 << 40),
    ("domain", "axes", 0, "size", -3),
    ("domain", "axes", 0, "size", "many"),
    ("domain", "axes", []),
    ("domain", "low", [0, 0, 0]),
    ("domain", "high", [1e300, 49.5]),
    ("domain", "axes", 0, {"name": "a", "size": 1 << 30, "period": None, "origin": 0.0,
                           "step": 1.0, "even": True}),
    ("partition", "edges", [5]),
    ("partition", "edges", 0, 1 << 40),
    ("partition", "edges", 0, 0),
    ("partition", "edges", 0, "listed"),
    ("partition", "edges", 5),
    ("partition", "overlap", [float("1e308"), 2.0]),
    ("partition", "regular", False),
    ("groups", []),
    ("groups", 0, "n_modes", 1 << 40),
    ("groups", 0, "n_modes", 3),
    ("groups", 0, "probe", [0.0, 0.0, 0.0]),
    ("groups", 0, "probe", []),
    ("groups", 0, "modes", {"kind": "product", "box": [1 << 20, 1 << 20], "orders": [1, 1]}),
    ("groups", 0, "modes", {"kind": "product", "box": [30000, 20], "orders": [1, 1]}),
    ("groups", 0, "modes", {"kind": "product", "box": [20, 20], "orders": [3.0, 1.1]}),
    ("groups", 0, "modes", {"kind": "exec", "box": [20, 20]}),
    ("groups", 0, "modes", "kind", "plain"),
    ("groups", 0, "modes", {"kind": "plain", "box": [20, 20], "network": 0}),
    ("groups", 0, "modes", {"kind": "neurons", "axes": [[1 << 40, 1.0], [2, 1.0]]}),
    ("groups", 0, "modes", {"kind": "plain", "box": [20, 20], "network": 0}),
    ("dtype", "object"),
    ("samples", {}),
    ("samples", "low", [0, 0, 0]),
    ("samples", "low", [-1, 0]),
    ("samples", "high", [1 << 40, 50]),
    ("samples", "high", [40, 49]),
    ("samples", "dtype", "float32"),
    ("samples", "dtype", "object"),
    ("samples", "checks", "zz"),
    ("samples", "missing", 1),
    ("frames", "listed"),
    ("offset", []),
    ("offset", [1.0, 2.0]),
    ("channel_axis", 5),
    ("attributes", 3.5),
    ("attributes", {"$float": "nan"}),
    ("attributes", {"axes": 3}),
    ("attributes", {"axes": {"row": 3}}),
    ("attributes", {"channels": []}),
]  # fmt: skip

RAGGED = [
    ("groups", 0, "ragged", False),
    ("groups", 0, "n_modes", 7),
    ("n_coefficients", 1 << 40),
    ("n_coefficients", 3),
    ("dtype", "float16"),
    ("dtype", "object"),
    ("offset", [1.0]),
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: "-".join(map(str, lie))[:60])
def test_metadata_that_lies_is_refused(smooth, lie):
    *place, value = lie
    rewrite(smooth, edit(*place, value=value))
    with pytest.raises(ef.StoreError):
        on_samples(ef.load(smooth))


TARGET = {"made": "Target", "kind": "psnr", "value": 40}


@pytest.mark.parametrize(
    "target",
    [
        {**TARGET, "value": True}, {**TARGET, "value": "40"}, {**TARGET, "value": -1},
        {**TARGET, "kind": 5}, {**TARGET, "kind": []}, {**TARGET, "made": "x"},
        {"made": "Dense"}, {"made": "Target"}, {}, "psnr", 40, True, [TARGET],
    ],
    ids=str,
)  # fmt: skip
def test_a_target_that_is_none_is_refused(smooth, target):
    """Such models could be opened, and then not be saved."""
    rewrite(smooth, edit("settings", value={"made": "Smooth", "order": 1.5, "target": target}))
    with pytest.raises(ef.StoreError, match="makes no sense"):
        ef.load(smooth)


@pytest.mark.parametrize("settings", [{}, [], "x", 3, {"made": "x"}, {"made": [1]}], ids=str)
def test_settings_of_no_known_kind_are_kept_as_they_are(smooth, settings):
    rewrite(smooth, edit("settings", value=settings))
    field = ef.load(smooth)
    ef.save(field, smooth.with_name("again.elm"))
    np.testing.assert_array_equal(ef.load(smooth.with_name("again.elm")).samples(), field.samples())


@pytest.mark.parametrize("lie", RAGGED, ids=lambda lie: "-".join(map(str, lie))[:60])
def test_coefficients_that_lie_are_refused(tmp_path, lie):
    path = tmp_path / "model.elm"
    ef.save(FIELDS["targets"], path)
    *place, value = lie
    rewrite(path, edit(*place, value=value))
    with pytest.raises(ef.StoreError):
        ef.load(path).samples()


def test_a_residual_is_read_if_it_is_there(tmp_path):
    path = tmp_path / "model.elm"
    ef.save(FIELDS["targets"], path)
    rewrite(path, edit("residual", value="yes"))
    assert survives(path, FIELDS["targets"].samples())


@pytest.mark.parametrize("name", ["smooth", "coded", "gaps", "targets", "beam"])
def test_every_missing_entry_is_noticed(tmp_path, name):
    path = tmp_path / "model.elm"
    ef.save(FIELDS[name], path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        keys = archive.namelist()
    for key in keys:
        path.write_bytes(data)
        rewrite(path, lambda _: None, key)
        with pytest.raises(ef.StoreError):
            ef.load(path).samples()


def about(changes, *place):
    """A change of an array's description."""

    def change(data):
        found = json.loads(data)
        inner = found
        for step in place:
            inner = inner[step]
        inner.update(changes)
        return json.dumps(found).encode()

    return change


@pytest.fixture
def targets(tmp_path):
    path = tmp_path / "targets.elm"
    ef.save(FIELDS["targets"], path)
    return path


def test_an_array_that_lies_about_its_length(smooth, targets):
    rewrite(smooth, about({"shape": [1 << 40, 50]}), "samples/zarr.json")
    with pytest.raises(ef.StoreError, match=r"float64 of shape \(40, 50\) in coded tiles was"):
        ef.load(smooth)
    rewrite(targets, about({"shape": [1 << 40]}), "coefficients/zarr.json")
    with pytest.raises(ef.StoreError, match="numbers of type float64 were expected"):
        ef.load(targets)


def test_blocks_that_would_unpack_to_too_much(tmp_path, targets, monkeypatch):
    huge = about({"chunk_shape": [1 << 35]}, "chunk_grid", "configuration")
    rewrite(targets, huge, "coefficients/zarr.json")
    with pytest.raises(ef.StoreError, match="blocks of"):
        ef.load(targets)
    path = tmp_path / "wide.elm"
    ef.save(ef.fit(np.zeros(1 << 12)), path)
    monkeypatch.setattr("elmfield.io.store.blocks.MAX_BLOCK_BYTES", 1 << 14)
    rewrite(
        path, about({"chunk_shape": [1 << 35]}, "chunk_grid", "configuration"), "samples/zarr.json"
    )
    with pytest.raises(ef.StoreError, match=r"tiles of \(34359738368,\) samples"):
        ef.load(path)


@pytest.mark.parametrize("shape", [[0, 50], [40, -1], [40], [40, 50, 2], "many"])
def test_tiles_that_are_none(smooth, shape):
    change = about({"chunk_shape": shape}, "chunk_grid", "configuration")
    rewrite(smooth, change, "samples/zarr.json")
    with pytest.raises(ef.StoreError, match="array 'samples'"):
        ef.load(smooth)


def signed(data):
    import google_crc32c

    return data + google_crc32c.value(data).to_bytes(4, "little")


def test_a_block_whose_header_promises_gigabytes(targets):
    def change(data):
        raw = bytearray(data[:-4])
        raw[4:8] = (1 << 31).to_bytes(4, "little")  # Blosc's own claim of its length
        return signed(bytes(raw))

    rewrite(targets, change, "coefficients/c/0")
    with pytest.raises(ef.StoreError, match="not the one that was saved here"):
        ef.load(targets).samples()
    with zipfile.ZipFile(targets) as archive:
        sums = {"coefficients": archive.read("coefficients/c/0")[-4:].hex()}
    known = json.loads(zipfile.ZipFile(targets).read("zarr.json"))["attributes"]["elmfield"]
    rewrite(targets, edit("checks", value=known["checks"] | sums))
    with pytest.raises(ef.StoreError, match="wrong length"):
        ef.load(targets).samples()


@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_a_tile_of_another_size_or_dtype(smooth, dtype):
    tile = signed(pack(np.zeros((1000, 1500), dtype)))
    rewrite(smooth, lambda _: tile, "samples/c/0/0")
    rewrite(smooth, edit("samples", "checks", value=tile[-4:].hex()))
    with pytest.raises(ef.StoreError, match="a coded tile holds"):
        ef.load(smooth).samples()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smooth", "coded"])
def test_tiles_that_lie_with_check_sums_that_agree(tmp_path, name):
    """Whoever lies on purpose can also count: the codec must not believe a tile's own claims."""
    path = tmp_path / "model.elm.zarr"
    ef.save(FIELDS[name], path)
    tile = next(p for p in sorted((path / "samples" / "c").rglob("*")) if p.is_file())
    data, root = tile.read_bytes()[:-4], json.loads((path / "zarr.json").read_text())
    meta = root["attributes"]["elmfield"]
    meta.pop("digest")
    rng, shape = np.random.default_rng(8), FIELDS[name].samples().shape
    refused = 0
    for k in range(30):
        bad = bytearray(data)
        if k % 3 == 0:
            bad = bad[: int(rng.integers(len(bad)))]
        else:
            bad[int(rng.integers(len(bad)))] ^= 1 << int(rng.integers(8))
        whole = signed(bytes(bad))
        tile.write_bytes(whole)
        meta["samples"]["checks"] = whole[-4:].hex()
        (path / "zarr.json").write_text(json.dumps(root))
        try:
            assert ef.load(path).samples().shape == shape
        except ef.StoreError:
            refused += 1
    assert refused > 9  # what was cut, at least


def test_deep_json_does_not_overflow_the_stack(smooth):
    rewrite(smooth, lambda _: b"[" * 200_000)
    with pytest.raises(ef.StoreError, match="is not JSON"):
        ef.load(smooth)


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../outside", "a/../../outside", "c:/windows", "a\\b", "//host/x", "a//b"],
)
def test_names_that_climb_are_refused(tmp_path, smooth, name):
    with zipfile.ZipFile(smooth, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")
    before = sorted(p.name for p in tmp_path.parent.rglob("*"))
    with pytest.raises(ef.StoreError, match="unsafe name"):
        ef.load(smooth)
    assert sorted(p.name for p in tmp_path.parent.rglob("*")) == before


def test_two_entries_of_one_name(smooth):
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(smooth, "a") as archive:
        archive.writestr("zarr.json", b"{}")
    with pytest.raises(ef.StoreError, match="two entries named"):
        ef.load(smooth)


@pytest.mark.slow
def test_a_zip_bomb_is_not_unpacked(smooth):
    with zipfile.ZipFile(smooth, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("coefficients/c/1", bytes(1 << 26))
    assert smooth.stat().st_size < 1 << 18
    with pytest.raises(ef.StoreError, match="compressed entry"):
        ef.load(smooth)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "value"),
    [("samples/zarr.json", "{}"), ("zarr.json", "[]"), ("zarr.json", "[[0]]")],
)
def test_a_json_bomb_costs_little_memory(smooth, key, value):
    """65 kB of a file became 64 MiB of text, and that 1.4 GiB of Python's objects."""
    text = f'{{"attributes":[{",".join([value] * ((1 << 25) // (len(value) + 1)))}]}}'
    with zipfile.ZipFile(smooth) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    write_archive(smooth, {**entries, key: text.encode()})
    assert smooth.stat().st_size < 1 << 17
    tracemalloc.start()
    with pytest.raises(ef.StoreError, match=r"at most .* (are read|were expected)"):
        ef.load(smooth)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3 << 25  # the text, and a copy of it


def test_what_no_reader_takes_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("elmfield.io.store.blocks.MAX_JSON_VALUES", 1000)
    monkeypatch.setattr("elmfield.io.store.blocks.MAX_JSON_CONTAINERS", 1000)
    monkeypatch.setattr("elmfield.io.store.stores.MAX_ROOT_BYTES", 10_000)
    field = ef.fit(np.eye(9))
    for notes in ([0] * 1002, [[]] * 1001, "a" * 10_000):
        large = ef.Field(dataclasses.replace(field.model, labels=ef.Labels(attrs={"notes": notes})))
        with pytest.raises(ValueError, match=r"cannot be saved: .* Its attributes go there"):
            ef.save(large, tmp_path / "model.elm")
    assert not list(tmp_path.iterdir())


def test_entries_larger_than_any_are_refused(smooth, monkeypatch):
    """Of files and of what a URL gives; no more is asked for than an entry may have."""
    fsspec = pytest.importorskip("fsspec")
    folder = "memory://large/model.elm.zarr"
    ef.save(ef.load(smooth), folder)
    system, asked = fsspec.filesystem("memory"), []
    whole = type(system).cat_file

    def cat_file(self, path, start=None, end=None, **options):
        found = whole(self, path, start, end, **options)
        asked.append((path.partition(".zarr/")[2], len(found)))
        return found

    monkeypatch.setattr(type(system), "cat_file", cat_file)
    sizes = {"MAX_ROOT_BYTES": "'zarr.json'", "MAX_DOCUMENT_BYTES": "'samples/zarr.json'"}
    for name, what in {**sizes, "MAX_ENTRY_BYTES": "'samples/c/0/0'"}.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"elmfield.io.store.stores.{name}", 100)
            asked.clear()
            for path in (smooth, folder):
                with pytest.raises(ef.StoreError, match=f"{what} has .* bytes; at most 100"):
                    ef.load(path).samples()
        assert {n for key, n in asked if repr(key) == what} == {101}


@pytest.mark.parametrize("content", [b"", b"PK", b"hello", b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_other_files_are_no_models(tmp_path, content):
    (tmp_path / "x.elm").write_bytes(content)
    with pytest.raises(ef.StoreError, match="not a model file"):
        ef.load(tmp_path / "x.elm")


def test_another_zarr_group_is_no_model(tmp_path):
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(ef.StoreError, match=r"has no 'zarr\.json'"):
        ef.load(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(ef.StoreError, match="not a model file of elmfield"):
        ef.load(tmp_path / "x.zarr")


@pytest.mark.thorough
def test_hostile_files_cost_little_memory(tmp_path):
    """All the lies at once, in one process that may not have 700 MiB."""
    path = tmp_path / "model.elm"
    ef.save(FIELDS["smooth"], path)
    lies = [tmp_path / f"{k}.elm" for k in range(len(LIES))]
    for copy, (*place, value) in zip(lies, LIES):
        shutil.copy(path, copy)
        rewrite(copy, edit(*place, value=value))
    script = """
        import resource, sys
        import numpy as np, elmfield as ef
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        for name in sys.argv[1:]:
            try:
                ef.load(name).samples()
            except ef.StoreError:
                pass
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, lies)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) * 1024 < 64 << 20  # ru_maxrss counts KiB on Linux


@pytest.mark.thorough
def test_a_damaged_block_does_not_stop_the_others(tmp_path, monkeypatch):
    """Regions whose blocks are whole still answer; only the damaged ones refuse."""
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 16)
    big = ef.fit(np.random.default_rng(0).standard_normal((300, 300)))
    path = tmp_path / "model.elm"
    ef.save(big, path)
    with zipfile.ZipFile(path) as archive:
        keys = [k for k in archive.namelist() if k.startswith("samples/c/")]
    assert len(keys) > 3
    rewrite(path, lambda data: data[:-1] + bytes([data[-1] ^ 1]), keys[-1])
    field = ef.load(path)
    x = np.asarray([[10.0, 10.0]])
    np.testing.assert_array_equal(field(x), big(x))
    with pytest.raises(ef.StoreError, match="cannot be decoded"):
        field(np.asarray([[290.0, 290.0]]))


def test_an_archive_is_an_archive_wherever_it_lies(smooth):
    with smooth.open("rb") as file:
        assert "zarr.json" in ZipStore("x", file).sizes()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
