"""Help texts: there, with examples, and fast because nothing heavy is imported."""

import subprocess
import sys

import pytest

from packcli import cli
from packcli.encode.options import EncodeJob, EncodeOptions

COMMANDS = sorted(cli._COMMANDS)
HEAVY = ("torch", "transformers", "datasets", "pyarrow", "numpy", "tokenizers", "PIL", "av")

STARTED = """
import sys
from packcli.cli import main
heavy, calls = {heavy!r}, {calls!r}
for arguments in calls:
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)
    held = [name for name in heavy if name in sys.modules]
    assert not held, (arguments, held)
"""


def start(calls, heavy):
    """Run commands in a fresh interpreter that must not have imported some packages."""
    code = STARTED.format(heavy=heavy, calls=[[str(a) for a in call] for call in calls])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_help_imports_nothing_heavy():
    start([["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], HEAVY)


def test_encode_plan_pack_and_verify_import_no_torch(sample_data, tmp_path):
    encoded, packed = tmp_path / "encoded", tmp_path / "packed"
    model = sample_data / "models" / "qwen3_vl"
    start(
        [
            ["encode", sample_data / "chats.jsonl", "--model", model, "-o", encoded],
            ["plan", encoded, "--capacity", "1024,2048"],
            ["pack", encoded, "-o", packed, "--capacity", "2048"],
            ["verify", packed, "--level", "contract"],
            ["explain"],
            ["schema"],
        ],
        ("torch", "transformers", "datasets"),
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_two_examples(call, name):
    ended = call(name, "--help")
    assert ended.status == 0
    examples = ended.out.partition("Examples")[2].strip().splitlines()
    assert sum(f"packcli {name}" in line for line in examples) >= 2
    assert all(len(line) <= 100 for line in ended.out.splitlines())


def examples_of(name):
    """The examples of a command as argument lists; continued lines are joined."""
    epilog = cli.cli.get_command(None, name).epilog or ""
    lines = epilog.replace("\\\n", " ").splitlines()
    return [line.split("&&")[-1].split()[1:] for line in lines if f"packcli {name}" in line]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_examples_work_on_the_bundled_data(
    call, name, sample_data, encoded, packed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_data").symlink_to(sample_data)
    (tmp_path / "lengths.txt").write_text("10 6 5 4 3 2")
    if name != "encode":
        (tmp_path / "encoded").symlink_to(encoded())
    if name not in {"encode", "pack"}:
        (tmp_path / "packed").symlink_to(packed)
    for arguments in examples_of(name):
        if "sample_data/good" in arguments and not (sample_data / "good").exists():
            continue
        ended = call(*arguments)
        assert ended.status == 0, (arguments, ended.err)


def test_the_list_of_commands_is_whole(call, root):
    files = {path.stem for path in (root / "packcli" / "cli").glob("*.py")}
    shown = call("--help").out
    assert set(COMMANDS) <= files
    for name, what in cli._COMMANDS.items():
        assert f"{name} " in shown
        assert what.split(",")[0] in shown


def test_no_arguments_show_the_help(call):
    ended = call()
    assert ended.status == 2
    assert "Usage: packcli" in ended.out + ended.err


def test_an_unknown_command(call):
    ended = call("packs")
    assert ended.status == 2
    assert "No such command 'packs'" in ended.err


def test_options_of_encode_reach_the_job(call, sample_data, tmp_path, monkeypatch):
    seen = []

    def encode(inputs, job, writing):
        seen.append((inputs, job, writing))
        raise SystemExit(0)

    monkeypatch.setattr("packcli.encode.run.encode", encode)
    model = sample_data / "models" / "qwen3_vl"
    call("encode", "a.jsonl", "--model", model, "-o", tmp_path / "out")
    ((_, job, writing),) = seen
    assert job == EncodeJob(model, None, EncodeOptions())
    assert (writing.workers, writing.overwrite, writing.resume) == (1, False, True)
