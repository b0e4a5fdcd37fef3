"""view: an address, a page, an end; or a folder of files."""

import json
import re
import signal
import socket
import subprocess
import urllib.request

import pytest

pytest.importorskip("uvicorn")


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_when_told(script, environment, folder):
    running = subprocess.Popen(
        [script, "view", "sst.nc", "--slice", "time=0", "--no-open", "--port", "0"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = running.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/", said)[0]
        assert said.startswith("sst.nc is at ")
        with urllib.request.urlopen(f"{url}facts.json", timeout=30) as answer:
            facts = json.load(answer)
        assert facts["title"] == "sst.nc"
        assert "error" in facts["quantities"]
        with urllib.request.urlopen(f"{url}tile/0/0/0", timeout=30) as answer:
            assert answer.read(4) == b"ELM1"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
        assert "Traceback" not in running.stderr.read()
    finally:
        running.kill()
        running.communicate()


@pytest.mark.slow
def test_others_are_told_this_machine_s_name(run, monkeypatch):
    monkeypatch.setattr("elmfield.show.pages.Served.wait", lambda served: served.close())
    of_model = ("view", "photo.elm", "--samples", "photo.png", "--no-open")
    said = run(*of_model, "--host", "0.0.0.0").stdout
    here, port = re.search(r"is at (http://127\.0\.0\.1:(\d+)/)", said).groups()
    assert f"{here}, for others at http://{socket.gethostname()}:{port}/" in said
    assert "others" not in run(*of_model).stdout


@pytest.mark.slow
def test_a_page_is_written_that_needs_no_server(run, folder):
    ran = run("view", "photo.png", "--export", "page", "--export-size", "1")
    assert "open it in a browser" in ran.stdout
    facts = (folder / "page" / "facts.js").read_text()
    assert '"title": "photo.png"' in facts
    assert '"picture": true' in facts
    assert (folder / "page" / "index.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("view nowhere.elm --no-open", 3, "no model at nowhere.elm"),
        ("view nowhere.png --no-open", 3, "no file nowhere.png"),
        ("view photo.elm --slice row=1 --no-open", 2, "a model is shown as it is"),
        ("view photo.png --samples photo.png --no-open", 1, "`samples` must be"),
        ("view photo.elm --samples sst.nc --no-open", 1, "must be what was fitted"),
        ("view photo.elm --port 99999", 2, "99999"),
        ("view photo.elm --no-open --host 203.0.113.7", 1, "cannot listen at 203.0.113.7"),
    ],
)
def test_mistakes_are_told(run, words, code, message):
    assert message in run(*words.split(), code=code).stderr
