"""CSV files of results."""
import csv


def write_csv(file, rows):
    """Writes rows with the keys of the first one as columns."""
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
