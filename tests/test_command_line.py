import pytest

from graphbench.command_line import CommandParser


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--repaet 3", "unrecognized arguments: --repaet. Did you mean --repeat?\n"),
        ("--out-dir=x", "unrecognized arguments: --out-dir=x. Did you mean --out_dir?\n"),
        ("--quux", "unrecognized arguments: --quux\n"),
        ("--repeat x", "argument --repeat: invalid int value: 'x'\n"),
    ],
)
def test_the_nearest_option_is_named(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser(prog="program", description="First line.\n\n  second")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--out_dir")
    parser.add_argument("rest", nargs="*")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"program: error: {message}")
    assert "First line.\n\n  second" in parser.format_help()
