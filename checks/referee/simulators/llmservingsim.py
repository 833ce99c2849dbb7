"""LLMServingSim 2.0 (casys-kaist/LLMServingSim), its authors' own validation of the run: operations
profiled on the same GPU with the same model, their copy of vLLM's scheduler.

Imported; imported/sources.csv has commit, path and licence (MIT). Command there:
`bench/examples/run.sh RTXPRO6000/Llama-3.1-8B && bench/examples/validate.sh`. Here:
checks/referee/run --simulator llmservingsim
"""
import imported

identity = imported.identity


def predict(run):
    return imported.prediction("llmservingsim", run,
                               "its authors profiled and committed RTX GPUs only")
