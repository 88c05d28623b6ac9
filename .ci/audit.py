"""Compare constraints.txt with the published advisories (``make audit``).

The exit status is 1 if a version has a known vulnerability. If no advisory can be read, for example
without a network, the audit says that it is skipped, and the exit status is 0.
"""

import json
import subprocess
import sys

COMMAND = (
    "pip_audit", "--requirement", "constraints.txt", "--no-deps", "--disable-pip",
    "--format", "json", "--progress-spinner", "off",
)  # fmt: skip
UNREACHABLE = ("Max retries exceeded", "Connection", "Timeout", "timed out", "HTTPError")


def main() -> int:
    """Run pip-audit, print what it found and return the exit status."""
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND], capture_output=True, text=True, check=False
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        if any(sign in done.stderr for sign in UNREACHABLE):
            print("Audit skipped: the advisory service cannot be reached.")
            return 0
        print(f"Audit failed: {done.stderr.strip()}", file=sys.stderr)
        return 2
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        print(f"Audit skipped: the advisory service knows none of the {len(packages)} packages.")
        return 0
    vulnerable = [package for package in audited if package["vulns"]]
    for package in vulnerable:
        for advisory in package["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}")
    print(
        f"Audited {len(audited)} of {len(packages)} packages: {len(vulnerable)} have known "
        "vulnerabilities."
    )
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
