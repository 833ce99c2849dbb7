"""What the command line chose, for simulators that start a program."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
binary = ROOT / "build/release/apps/twinserve"
work = ROOT / "runs/referee/work"  # for files of single predictions
