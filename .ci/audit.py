"""Known vulnerabilities of the installed packages, by pip-audit: it informs, and never fails a change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 60
AUDIT = Path(sys.executable).with_name("pip-audit")


def main() -> None:
    asked = [str(AUDIT), "--local", "--skip-editable", "--progress-spinner", "off", "--format", "json"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS)
        packages = json.loads(done.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        print(f"audit: the advisories could not be asked for ({type(error).__name__})")
        return
    known = [each for each in packages if "skip_reason" not in each]
    found = [line(each, flaw) for each in known for flaw in each["vulns"]]
    print(f"audit: {len(found)} known vulnerabilities in {len(known)} packages; {len(packages) - len(known)} not known")
    print(*found, sep="\n", end="\n" if found else "")


def line(package: dict[str, Any], flaw: dict[str, Any]) -> str:
    fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
    return f"audit: {package['name']} {package['version']}: {flaw['id']}, fixed in {fixed}"


if __name__ == "__main__":
    main()
