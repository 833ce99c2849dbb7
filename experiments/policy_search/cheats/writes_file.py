"""4: writes what it learns to a file, for the next run."""
import pathlib
import sys
import tempfile

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class WritesFile(Fair):
    def remove(self, request):
        super().remove(request)
        with pathlib.Path(tempfile.gettempdir(), "lengths.txt").open("a", encoding="utf-8") as file:
            file.write(f"{request.prompt_tokens} {request.known}\n")
