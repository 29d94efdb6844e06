"""The generated page is the one in the repository."""

from scripts.config_reference import TARGET, reference


def test_the_reference_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "run: python -m scripts.config_reference"
