"""What a claim is: quantities with the band in which each is expected, written before the run."""
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Quantity:
    key: str
    what: str
    # As the source gives it, with the confidence of the number: R read in the source's own text or
    # code, S second-hand, M from memory, D derived from R numbers.
    published: str
    confidence: str
    band: tuple  # (lowest, highest) value that agrees with the claim
    factor: str  # kernels, memory, scheduling, arithmetic: what differs between the two sides
    open_input: str = ""  # the unpublished or missing input that a value outside may rest on
    checked: bool = True  # False: measured on this machine, so expected/ holds no number

    def verdict(self, found):
        low, high = self.band
        if found is None:
            return "no value"
        if low <= found <= high:
            return "inside"
        return "below" if found < low else "above"


@dataclasses.dataclass(frozen=True)
class Claim:
    key: str
    title: str
    source: str
    setting: str  # what was rebuilt, with the name of the length set
    quantities: tuple = ()
    # find(simulator) returns the value of each quantity by key.
    find: typing.Optional[typing.Callable] = None
    needs: str = ""  # what twinserve does not have yet, and which part of the claim waits for it
    quick: bool = False  # a second or two; a test compares it with expected/

    def results(self, simulator):
        """A row per quantity. Throws RuntimeError if a simulation fails or a value is missing."""
        found = self.find(simulator) if self.find else {}
        for quantity in self.quantities:
            if quantity.key not in found:
                raise RuntimeError(f"{self.key}: nothing was found for {quantity.key}")
            yield quantity, found[quantity.key]
