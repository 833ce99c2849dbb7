"""python -m twinserve: the command twinserve."""
from twinserve._command import main

main()
