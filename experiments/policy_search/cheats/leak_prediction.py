"""2: reads predictions that it did not ask for."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class LeakPrediction(Fair):
    reads_predictions = False

    def key(self, request):
        return (request.predicted_output_tokens, request.id)
