"""21: has a name that is no text, in the hope that it ends the judge with all policies behind it."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

BadName = type("Bad\udcffName", (Fair,), {"__module__": __name__})
