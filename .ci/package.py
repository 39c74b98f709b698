"""Build the sdist and the wheel, check their contents, and use the wheel outside of the checkout.

By default the wheel is installed beside the packages of this Python; with --empty into an empty environment, where
pip fetches what the wheel asks for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "waypost"
LARGEST = 5_000_000
PAPERS = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml"}
COMMANDS = (
    "--version",
    "doctor",
    "train bc --data t-maze --steps 20 --episodes 2 --out run",
    "inspect t-maze --out data.html",
    "list",
)
"""Together they read templates, presets, catalogues and style sheets."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--empty", action="store_true", help="install into an empty environment")
    parser.add_argument("--keep", type=Path, help="folder to copy the sdist and the wheel to")
    parser.add_argument("--tag", help="the release's tag, which must match the version")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="waypost-package-") as folder:
        place = Path(folder)
        sdist, wheel = build(place / "dist")
        check_sdist(sdist)
        version = check_wheel(wheel)
        if asked.tag not in (None, f"v{version}"):
            raise SystemExit(f"the tag is {asked.tag}, the version {version}")
        use(wheel, place, asked.empty)
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            for file in (sdist, wheel):
                shutil.copy(file, asked.keep)
    print(f"package: {sdist.name} and {wheel.name} are fine")


def build(out: Path) -> tuple[Path, Path]:
    """The sdist of a clean copy of the sources, and the wheel that is built from this sdist."""
    sources = out.with_name("sources")
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "runs", "docs", "results")
    shutil.copytree(ROOT, sources, ignore=left_out)
    run([sys.executable, "-m", "build", "--outdir", str(out), str(sources)], ROOT)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    for file in (sdist, wheel):
        if file.stat().st_size > LARGEST:
            raise SystemExit(f"{file.name} has {file.stat().st_size} bytes, more than {LARGEST}")
    return sdist, wheel


def check_sdist(file: Path) -> None:
    """It holds the package and the papers; tests and documentation are in the repository."""
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    rest = {name for name in names if "/" in name and not name.startswith(("waypost/", "waypost.egg-info/"))}
    if rest or PAPERS - names:
        raise SystemExit(f"{file.name}: has {sorted(rest)[:5]} too much, lacks {sorted(PAPERS - names)}")


def check_wheel(file: Path) -> str:
    """It holds every file of the package as it is here, and its metadata; the answer is the version."""
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    about = next(content for name, content in held.items() if name.endswith(".dist-info/METADATA"))
    ours = {name: content for name, content in held.items() if ".dist-info/" not in name}
    here = {str(path.relative_to(ROOT)): path.read_bytes() for path in PACKAGE.rglob("*") if _ours(path)}
    wrong = sorted(name for name in ours.keys() | here.keys() if ours.get(name) != here.get(name))
    if wrong:
        raise SystemExit(f"{file.name}: differs from the sources in {', '.join(wrong[:5])}")
    return str(Metadata.from_email(about, validate=True).version)


def _ours(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def use(wheel: Path, place: Path, empty: bool) -> None:
    """Install the wheel and let it work in an empty folder."""
    environment, work = place / "environment", place / "work"
    venv.create(environment)
    python = environment / "bin" / "python"
    needs = [] if empty else ["--no-deps"]
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *needs, str(wheel)], place)
    if not empty:
        own = sysconfig.get_path("purelib", vars={"base": str(environment)})
        Path(own, "beside.pth").write_text(sysconfig.get_path("purelib"))
    work.mkdir()
    for words in COMMANDS:
        run([str(environment / "bin" / "waypost"), *words.split()], work)
    found = run([str(python), "-c", "import waypost; print(waypost.__file__)"], work)
    if not Path(found.strip()).is_relative_to(environment.resolve()):
        raise SystemExit(f"tried {found.strip()} in place of the wheel")


def run(words: list[str], folder: Path) -> str:
    """What a command prints; if it fails, everything it said."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
