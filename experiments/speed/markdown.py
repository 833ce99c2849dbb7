"""Prints tables as they stand in a README."""


def print_line(cells):
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def print_headings(cells):
    print_line(cells)
    print(f"|{'---|' * len(cells)}", flush=True)
