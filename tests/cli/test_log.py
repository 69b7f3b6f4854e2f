"""`perfzero log`: the iterations of a project in order, with what cannot be read among them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfzero.cli.main import main
from perfzero.errors import OutputError
from perfzero.report.ledger.notes import FILE, MOST_BYTES, add_note, notes_of

RECORDINGS = Path(__file__).parents[1] / "recordings"


def runs_in(folder: Path, *names: str) -> Path:
    runs = folder / "perfzero-runs"
    for name in names:
        shutil.copytree(RECORDINGS / name, runs / name)
    return runs


def logged(runs: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    assert main(["log", str(runs), "--format", "json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return runs_in(tmp_path, "resnet50_channels_last", "resnet50_nchw")


def test_recordings_are_told_in_order_of_time_with_what_each_changed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = logged(project, capsys)["recordings"]

    assert [first["name"], second["name"]] == ["resnet50_nchw", "resnet50_channels_last"]
    assert first["before"] is None
    assert second["before"]["word"] == "more"
    assert second["before"]["value"] == pytest.approx(0.926, abs=0.002)
    assert second["first"] == second["before"]


def test_what_cannot_be_read_is_a_row_with_the_reason(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "broken").mkdir()
    (project / "broken" / "manifest.json").write_text("{")
    (project / "no_recording").mkdir()
    found = logged(project, capsys)

    assert [row["name"] for row in found["recordings"]][-1] == "broken"
    assert "no manifest that can be trusted" in found["recordings"][-1]["trouble"]
    assert len(found["recordings"]) == 3
    assert found["stop"]["of"] == "resnet50_channels_last"


def test_another_machine_is_not_compared(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = project / "resnet50_channels_last" / "manifest.json"
    changed = json.loads(manifest.read_text())
    changed["gpus"][0]["power_limit_w"] = 350.0
    manifest.write_text(json.dumps(changed))
    second = logged(project, capsys)["recordings"][1]

    assert second["before"] is None
    assert second["machine"] == ["power limit: 700 W (resnet50_nchw), 350 W (resnet50_channels_last)"]


def test_a_note_is_added_to_those_there_are_and_shown(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = project / "resnet50_nchw"

    assert main(["log", "--note", "batch 256", str(recording)]) == 0
    assert main(["log", "--note", "NCHW", str(recording)]) == 0
    assert (recording / FILE).read_text() == "batch 256\nNCHW\n"
    assert main(["log", str(project), "--last", "2"]) == 0
    assert "“batch 256”" in capsys.readouterr().out


def test_a_note_on_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "--note", "x", str(tmp_path)]) == 4
    assert "is no recording" in capsys.readouterr().err


def test_a_note_without_text_is_refused(project: Path) -> None:
    assert main(["log", "--note", " \n", str(project / "resnet50_nchw")]) == 2
    assert not (project / "resnet50_nchw" / FILE).exists()


def test_notes_may_come_from_anyone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\x1b[2Jred\n" + b"x" * (2 * MOST_BYTES))
    first, second = notes_of(tmp_path)

    assert first == "[2Jred"
    assert len(second) <= MOST_BYTES


def test_a_link_in_place_of_notes_is_not_followed_and_not_written_through(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    recording = tmp_path / "r"
    recording.mkdir()
    os.symlink(secret, recording / FILE)

    assert notes_of(recording) == ()
    with pytest.raises(OutputError, match="link"):
        add_note(recording, "mine")
    assert secret.read_text() == "secret\n"


def test_the_stop_rule_says_that_a_roof_is_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = runs_in(tmp_path, "transformer_healthy")

    assert main(["log", str(runs)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Stop here: the practical roof of the tensor cores is reached" in said


def test_the_stop_rule_says_what_to_do_next_or_that_it_promises_too_little(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go_on = logged(project, capsys)["stop"]
    little = logged(project, capsys, "--stop-below", "50")["stop"]

    assert go_on["why"] == "go on"
    assert go_on["gain"]["high"] > 1.05
    assert go_on["remedy"]
    assert little["why"] == "little"


def test_older_recordings_are_left_out_and_that_is_said(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(project), "--last", "1"]) == 0
    shown = capsys.readouterr().out

    assert "1 older recordings are left out" in shown
    assert "resnet50_nchw" not in shown


def test_a_missing_folder_an_empty_one_and_a_recording_are_refused_by_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(tmp_path / "nowhere")]) == 4
    assert "There is no folder" in capsys.readouterr().err
    assert main(["log", str(tmp_path)]) == 4
    assert "holds no recording" in capsys.readouterr().err
    assert main(["log", str(RECORDINGS / "resnet50_nchw")]) == 2
    assert "is a recording" in capsys.readouterr().err


def test_the_table_fits_80_columns(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from perfzero.report.ledger.project import project as read
    from perfzero.report.ledger.project_terminal import show

    stream = StringIO()
    show(read(project, most=5, below=0.05), stream=stream, width=80)

    assert max(map(len, stream.getvalue().splitlines())) <= 80
    assert "+93 %" in stream.getvalue()


def test_another_program_is_said_to_be_one_and_compared(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = logged(project, capsys)["recordings"]

    assert first["program"] == ""
    assert second["program"] == "python3 zoo/resnet50.py --seconds 16 --channels-last"
    assert second["before"]["word"] == "more"


def test_the_same_program_is_not_said_to_be_another(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(project / "resnet50_channels_last")
    shutil.copytree(project / "resnet50_nchw", project / "again")

    assert [row["program"] for row in logged(project, capsys)["recordings"]] == ["", ""]
    assert main(["log", str(project)]) == 0
    assert "Another program" not in capsys.readouterr().out


def as_close_look(recording: Path, *, every_s: float = 3600.0) -> None:
    manifest = json.loads((recording / "manifest.json").read_text())
    manifest["process"] |= {"pid": None, "command": []}
    manifest["settings"]["every_s"] = every_s
    (recording / "manifest.json").write_text(json.dumps(manifest))


def test_a_close_look_of_top_is_no_iteration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_close_look(project / "resnet50_nchw")
    found = logged(project, capsys)

    assert [row["name"] for row in found["recordings"]] == ["resnet50_channels_last"]
    assert found["close_looks"] == 1


def test_a_program_that_was_looked_at_once_an_hour_is_an_iteration(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((project / "resnet50_nchw" / "manifest.json").read_text())
    manifest["settings"]["every_s"] = 3600.0
    (project / "resnet50_nchw" / "manifest.json").write_text(json.dumps(manifest))

    assert len(logged(project, capsys)["recordings"]) == 2


def test_a_gpu_that_was_recorded_for_long_is_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_close_look(project / "resnet50_nchw", every_s=10.0)

    assert len(logged(project, capsys)["recordings"]) == 2


def test_a_list_in_a_manifest_does_not_stop_the_log(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((project / "resnet50_nchw" / "manifest.json").read_text())
    manifest["host"]["cpu_count"] = [1, 2]
    (project / "resnet50_nchw" / "manifest.json").write_text(json.dumps(manifest))

    assert len(logged(project, capsys)["recordings"]) == 2


def test_notes_of_several_at_once_are_all_kept(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from perfzero.report.ledger.notes import add_note
        for number in range(20):
            add_note(Path(sys.argv[1]), f"{sys.argv[2]}-{number}")
    """
    several = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(who)]) for who in range(4)]
    assert [process.wait(30) for process in several] == [0] * 4

    assert set(notes_of(tmp_path)) == {f"{who}-{number}" for who in range(4) for number in range(20)}


def test_a_full_file_takes_no_note_and_loses_none(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("first\n" * (MOST_BYTES // 6))
    before = (tmp_path / FILE).read_bytes()

    with pytest.raises(OutputError, match="64 KB"):
        add_note(tmp_path, "one more")
    assert (tmp_path / FILE).read_bytes() == before


def test_a_line_that_an_editor_left_open_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("typed by hand")
    add_note(tmp_path, "added")

    assert notes_of(tmp_path) == ("typed by hand", "added")


def test_a_pipe_in_place_of_notes_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)

    with pytest.raises(OutputError):
        add_note(tmp_path, "x")
