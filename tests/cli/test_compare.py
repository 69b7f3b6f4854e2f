"""`perfzero compare`: what is named on the command line, and how it ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfzero.cli.compare import runs_of
from perfzero.cli.main import main
from perfzero.errors import NoRecording
from perfzero.report.ledger.measure import iteration

RECORDINGS = Path(__file__).parents[1] / "recordings"
BEFORE, AFTER = str(RECORDINGS / "resnet50_nchw"), str(RECORDINGS / "resnet50_channels_last")


def test_two_recordings_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", BEFORE, AFTER]) == 0
    assert "B is 1.93× as fast as A" in capsys.readouterr().out


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--quiet", BEFORE, AFTER]) == 0
    assert capsys.readouterr().out == ""


def test_one_recording_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", BEFORE]) == 2
    assert "two recordings or more" in capsys.readouterr().err


def test_a_folder_that_is_no_recording_is_unreadable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", BEFORE, str(tmp_path)]) == 4
    assert "holds no recording" in capsys.readouterr().err


def test_unlike_machines_have_their_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    shutil.copytree(AFTER, other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["gpus"][0]["power_limit_w"] = 350.0
    (other / "manifest.json").write_text(json.dumps(manifest))

    assert main(["compare", BEFORE, str(other)]) == 11
    assert "power limit: 700 W (A), 350 W (B)" in capsys.readouterr().err
    assert main(["compare", "--force", "--quiet", BEFORE, str(other)]) == 0


def test_several_runs_are_named_with_commas_or_by_their_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "manifest.json").write_text("{}")
    one, two = (tmp_path / "runs" / name for name in ("one", "two"))

    assert runs_of(str(tmp_path / "runs")) == ("runs", [one, two])
    assert runs_of(f"{one},{two}") == ("one", [one, two])
    assert runs_of(str(one)) == ("one", [one])


def test_a_folder_whose_name_has_a_comma_is_one_recording(tmp_path: Path) -> None:
    odd = tmp_path / "a,b"
    odd.mkdir()
    (odd / "manifest.json").write_text("{}")

    assert runs_of(str(odd)) == ("a,b", [odd])


def test_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match="perfzero run"):
        runs_of(str(tmp_path))


def test_files_are_written_by_their_endings_and_not_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "p.html"
    command = ["compare", "--quiet", BEFORE, AFTER, "-o", str(table), "-o", str(page)]

    assert main(command) == 0
    assert table.read_text().startswith("group,metric,")
    assert page.read_text().startswith("<!doctype html>")
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*command, "--force"]) == 2
    assert main([*command, "--overwrite"]) == 0


def test_an_ending_that_says_nothing_is_refused_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "nowhere", "nothing", "-o", "table.pdf"]) == 2
    assert ".xlsx" in capsys.readouterr().err


def test_a_condition_that_holds_ends_with_10_and_one_that_does_not_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", "--quiet", AFTER, BEFORE, "--fail-if", "throughput < -2%"]) == 10
    assert "holds. step_rate of B against A: -48 %" in capsys.readouterr().err
    assert main(["compare", "--quiet", BEFORE, AFTER, "--fail-if", "throughput < -2%"]) == 0


def test_an_unknown_metric_is_a_usage_error_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "nowhere", "nothing", "--fail-if", "speeed < 1%"]) == 2
    assert "There are: throughput" in capsys.readouterr().err


def test_json_goes_to_stdout_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--format", "json", BEFORE, AFTER]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 1


def with_manifest(name: str, to: Path, **changed: object) -> str:
    """A copy of a recording whose manifest says otherwise."""
    shutil.copytree(RECORDINGS / name, to)
    manifest = json.loads((to / "manifest.json").read_text())
    (to / "manifest.json").write_text(json.dumps({**manifest, **changed}))
    return str(to)


def test_a_word_of_nothing_but_commas_is_no_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", ",", AFTER]) == 2
    assert "two recordings or more" in capsys.readouterr().err


def test_several_programs_are_not_several_runs_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", f"{BEFORE},{AFTER}", AFTER]) == 2
    said = capsys.readouterr().err
    assert "resnet50.py --seconds 16\n" in said
    assert "--channels-last\n" in said
    assert main(["compare", "--force", "--quiet", f"{BEFORE},{AFTER}", AFTER]) == 0


def test_a_recording_that_is_given_twice_is_counted_once_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = with_manifest("resnet50_nchw", tmp_path / "copy")
    assert main(["compare", "--format", "json", f"{BEFORE},{BEFORE},{copy}", AFTER]) == 0
    first, second = json.loads(capsys.readouterr().out)["iterations"]

    assert (first["paths"], first["twice"]) == ([BEFORE], [BEFORE, copy])
    assert second["twice"] == []
    assert main(["compare", f"{BEFORE},{BEFORE}", AFTER]) == 0
    assert "Given twice, and counted once:" in capsys.readouterr().out


def test_two_runs_of_one_program_are_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = with_manifest("resnet50_nchw", tmp_path / "other", created_ns=1)

    assert main(["compare", f"{BEFORE},{other}", AFTER]) == 0
    said = capsys.readouterr().out
    assert "(2 runs)" in said
    assert "Given twice" not in said


def test_a_list_in_the_free_part_of_a_manifest_is_a_fact_as_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = with_manifest("resnet50_nchw", tmp_path / "odd", host={"cpu_count": [1, 2]})

    assert main(["compare", odd, AFTER]) == 11
    assert "CPUs of the host: [1, 2] (A)" in capsys.readouterr().err
    assert main(["compare", "--quiet", odd, odd]) == 0


def test_a_command_as_long_as_a_book_takes_two_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((RECORDINGS / "resnet50_nchw" / "manifest.json").read_text())
    process = {**manifest["process"], "command": ["python3", "t.py", "x" * 5000, "--end"]}
    long = with_manifest("resnet50_nchw", tmp_path / "long", process=process)

    assert main(["compare", long, AFTER]) == 0
    said = capsys.readouterr().out
    assert "xxx --end (A)" in " ".join(said.split())
    assert said.count("xxxx") <= 60


def of_two_gpus(name: str, to: Path, *, first: int, second: int) -> str:
    """A recording of one GPU as that of two, its streams once for each index."""
    manifest = json.loads((RECORDINGS / name / "manifest.json").read_text())
    (gpu,) = manifest["gpus"]
    gpus = [{**gpu, "index": i, "uuid": f"GPU-{i}"} for i in (first, second)]
    tiers = {key: dict.fromkeys(map(str, (first, second)), next(iter(manifest[key].values()), None))
             for key in ("tiers", "tier_reasons") if manifest.get(key)}  # fmt: skip
    path = with_manifest(name, to, gpus=gpus, **tiers)
    for file in list(to.glob("*-gpu0*.arrow")):
        for index in {first, second} - {0}:
            shutil.copy(file, to / file.name.replace("-gpu0", f"-gpu{index}"))
        if 0 not in (first, second):
            file.unlink()
    return path


def test_the_gpu_of_the_first_recording_is_compared_in_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = of_two_gpus("resnet50_channels_last", tmp_path / "b", first=0, second=3)
    only_third = with_manifest("resnet50_nchw", tmp_path / "a")
    assert main(["compare", "--format", "json", only_third, several]) == 0
    one, other = json.loads(capsys.readouterr().out)["iterations"]
    assert (one["gpu"], other["gpu"]) == (None, 0)

    third = iteration("third", [Path(several)], gpu=3)
    assert iteration("like it", [Path(several)], like=third).first.gpu.gpu.index == 3
    assert main(["compare", "--gpu", "3", several, several]) == 0
    assert "b, GPU 3" in capsys.readouterr().out


def test_what_cannot_be_told_fails_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = ["compare", "--quiet", BEFORE, AFTER, "--fail-if", "l2_hit < -0.1 points"]

    assert main(unknown) == 0
    assert main([*unknown, "--fail-if-unknown"]) == 10
    assert main(["compare", "--quiet", BEFORE, AFTER, "--fail-if", "speed < -2%", "--fail-if-unknown"]) == 0
    assert main(["compare", BEFORE, AFTER, "--fail-if-unknown"]) == 2
    assert "is about conditions" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("options", [[], ["--format", "csv"]])
def test_a_full_disk_is_a_sentence(options: list[str]) -> None:
    code = "from perfzero.cli.main import script; script()"
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", code, "compare", *options, BEFORE, AFTER],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert ended.returncode == 1
    assert ended.stderr == "perfzero: The output could not be written: No space left on device.\n"
