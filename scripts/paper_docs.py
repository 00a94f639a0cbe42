"""Write docs/paper.md and its figures from a folder that `sameluck paper` wrote (default: paper-report)."""

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def page(folder: Path) -> str:
    """Return the page with links to the figures of the documentation."""
    return (folder / "paper.md").read_text(encoding="utf-8").replace("](figures/", "](paper/")


def main(folder: Path) -> None:
    """Copy the page and its figures."""
    (DOCS / "paper").mkdir(exist_ok=True)
    for figure in sorted((folder / "figures").glob("*.svg")):
        shutil.copy(figure, DOCS / "paper")
    (DOCS / "paper.md").write_text(page(folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "paper-report"))
