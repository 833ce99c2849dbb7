"""Writes apps/serve/text/unicode_changes_table.inc: code points whose general category has changed between
Unicode 14.0 and 16.0.

Usage: make_unicode_changes.py OUTPUT, with Python 3.11 (whose unicodedata has Unicode 14.0) and pip.
The other versions come from the package unicodedata2 of PyPI, downloaded into a temporary folder.
"""
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

VERSIONS = ("15.0.0", "15.1.0", "16.0.0")
LIST = "print(unicodedata.unidata_version, *(unicodedata.category(chr(c)) for c in range(0x110000)))"


def categories(version):
    """The category of each code point in a version of Unicode."""
    if version == "14.0.0":
        source = "import unicodedata; " + LIST
    with tempfile.TemporaryDirectory() as folder:
        if version != "14.0.0":
            subprocess.run([sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", folder,
                            f"unicodedata2=={version}"], check=True)
            source = f"import sys; sys.path.insert(0, {folder!r}); import unicodedata2 as unicodedata; " + LIST
        found, *listed = subprocess.run([sys.executable, "-c", source], check=True, text=True,
                                        capture_output=True).stdout.split()
    assert found == version, f"unicodedata is {found}, not {version}"
    return listed


def changes():
    """(first, last, category, version) of runs of code points with the same latest change."""
    before = categories("14.0.0")
    latest = {}
    for version in VERSIONS:
        after = categories(version)
        latest.update({c: (after[c], version) for c in range(0x110000) if after[c] != before[c]})
        before = after
    runs = []
    for code, change in sorted(latest.items()):
        if runs and runs[-1][1] == code - 1 and runs[-1][2] == change:
            runs[-1][1] = code
        else:
            runs.append([code, code, change])
    return runs


def main():
    """Writes the table, one run of code points per line."""
    lines = ["// Written by tools/make_unicode_changes.py: first, last, category, since Unicode (x 10)."]
    for first, last, (category, version) in changes():
        major, minor, _ = version.split(".")
        lines.append(f"{{0x{first:04X}, 0x{last:04X}, Category::k{category}, {major}{minor}}},")
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    assert unicodedata.unidata_version == "14.0.0", "run with Python 3.11"
    main()
