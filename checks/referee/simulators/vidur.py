"""Vidur (microsoft/vidur @ 8383d29) as the authors of BLIS ran it: vLLM's scheduler, recorded batch
limits, the recorded trace with answers tokenized again (195 tokens of 247 on average).

Imported from their comparison of simulators; imported/sources.csv has commit and path. Command
there: `python -m experiment.run --adapters vidur`. TPOT is Vidur's own mean of a step per token.
Vidur was not run here: vidur 0.0.26 of PyPI has no tables, fetches them from a hub that is out of
reach, and lists Llama-3 8B and 70B only. simulators/vidur_tables.py reads the older tables.
Here: checks/referee/run --simulator vidur
"""
import imported

identity = imported.identity


def predict(run):
    return imported.prediction("vidur", run, "nobody committed Vidur's prediction of this run")
