"""The policy whose weights search.py looks for."""
import math

from fair import Fair


class Weighted(Fair):
    """Admits first whose weighted sum of logarithms of lengths is the smallest."""
    reads_predictions = True
    # Weights of: time of arrival; tokens of the prompt; predicted output; what of it is left;
    # tokens generated before a preemption.
    arrival = 1.0
    prompt = 0.0
    predicted = 0.0
    remaining = 0.0
    generated = 0.0

    def key(self, request):
        generated = request.known - request.prompt_tokens
        predicted = max(request.predicted_output_tokens, 1)
        left = max(predicted - generated, 1)
        return (self.arrival * request.arrival_s / 10
                + self.prompt * math.log(request.prompt_tokens)
                + self.predicted * math.log(predicted)
                + self.remaining * math.log(left)
                + self.generated * math.log1p(generated), request.id)
