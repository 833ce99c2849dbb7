"""Fetches the 70 chat templates of published models that llama.cpp collects, from the source package of
llama-cpp-python on PyPI (77 MB), for compare_with_jinja.py. They are under their models' licences,
so none is kept here.

Usage: published_templates.py FOLDER"""
import hashlib
import pathlib
import subprocess
import sys
import tarfile
import tempfile

VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary",
                        "llama-cpp-python", f"llama-cpp-python=={VERSION}", "--dest", scratch], check=True)
        package = next(pathlib.Path(scratch).glob("*.tar.gz"))
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"{package.name} has SHA-256 {found}, expected {SHA256}")
        count = 0
        with tarfile.open(package) as archive:
            for member in archive:
                path = pathlib.PurePosixPath(member.name)
                if path.parent.name == "templates" and path.suffix == ".jinja":
                    (folder / path.name).write_bytes(archive.extractfile(member).read())
                    count += 1
    print(f"{count} templates in {folder}")


if __name__ == "__main__":
    main()
