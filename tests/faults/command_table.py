"""Every command as the faults meet it: cheap, and with everything it writes below one folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """A command line, where {out} is what it writes; {data}, {run}, {log} and {settings} are what it reads."""

    line: str
    out: str
    """The name of {out}; empty for a command that writes nothing."""
    again: str = ""
    """What to add where {out} is there already: to replace a file, or to continue in a folder."""

    @property
    def writes_a_folder(self) -> bool:
        return bool(self.out) and not Path(self.out).suffix

    def words(self, out: Path | str, places: dict[str, Path], again: bool = False) -> list[str]:
        words = [word.format(out=out, **places) for word in self.line.split()]
        return words + (self.again.split() if again else [])


TABLE: dict[str, Command] = {
    "train": Command(
        "train bc --data {data} --out {out} --steps 4 --log-every 2 --hidden 8 --batch-size 8", "run", "--resume"
    ),
    "demo": Command("demo --steps 4 --out {out}", "demo", "--resume"),
    "compare": Command(
        "compare --data t-maze --algos bc --steps 4 --seeds 1 --episodes 1 --settings {settings} --out {out}",
        "compared",
    ),
    "sweep": Command(
        "sweep bc --data t-maze --grid learning_rate=0.001 --steps 4 --seeds 1 --episodes 1 --settings {settings} "
        "--out {out}",
        "swept",
    ),
    "paper": Command("paper stitching --seeds 2 --out {out}", "paper"),
    "evaluate": Command("evaluate {run} --episodes 1", ""),
    "report": Command("report {run} --out {out}", "report.html"),
    "adapt": Command("adapt {run} --data {data} --env none --steps 4 --out {out}", "adapted", "--resume"),
    "diagnose": Command("diagnose {run} --data {data} --states 20 --neighbours 3 --out {out}", "diagnosis"),
    "judge": Command(
        "judge {run} --data {data} --members 5 --steps 4 --hidden 8 --out {out}",
        "judged",
    ),
    "export to ONNX": Command("export {run} {out}", "policy.onnx", "--overwrite"),
    "export to NumPy": Command("export {run} {out}", "policy.npz", "--overwrite"),
    "serve": Command("serve {run} --port 0 --check", ""),
    "collect": Command("collect hopper-random --transitions 30 --workers 1 --out {out}", "hopper.npz", "--overwrite"),
    "inspect": Command("inspect {data} --out {out}", "page.html"),
    "convert to .npz": Command("convert {data} {out}", "log.npz", "--overwrite"),
    "convert to .hdf5": Command("convert {data} {out}", "log.hdf5", "--overwrite"),
    "convert to .parquet": Command("convert {data} {out}", "log.parquet", "--overwrite"),
    "convert to Minari": Command("convert {data} {out}", "log"),
    "convert a mixture": Command("convert {data}+{data} {out}", "both.npz", "--overwrite"),
    "convert to parts": Command("convert {data} {out} --parts 2", "parts"),
    "list": Command("list", ""),
    "doctor": Command("doctor --no-self-test", ""),
}
WRITERS = [name for name, command in TABLE.items() if command.out]
FILE_WRITERS = [name for name in WRITERS if not TABLE[name].writes_a_folder]
FOLDER_WRITERS = [name for name in WRITERS if TABLE[name].writes_a_folder and name != "convert to Minari"]
"""Commands that go on in a folder that is there; a Minari set is a folder that appears as a whole."""
