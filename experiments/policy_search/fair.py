"""An honest policy, which candidates and cheats change: chunked prefill with preemption, and
an order of the waiting requests."""
import twinserve


class Fair(twinserve.Policy):
    """Decodes first, then prompts in chunks, then waiting requests in the order of key()."""
    first_come_first_served = False

    def key(self, request):
        """Smaller values are admitted first."""
        return (request.arrival_s, request.id)

    def plan(self, step):
        i = 0
        while i < len(self.running) and step.tokens_left > 0:
            i += step.schedule_decodes(self.running, i)
            if i == len(self.running):
                break
            request = self.running[i]  # the rest of a prompt, or a decode without a free block
            tokens = min(request.left, step.tokens_left)
            if step.grow(request, request.computed + tokens):
                step.schedule(request, tokens)
                i += 1
            else:
                step.preempt(self.running[-1])
        for request in sorted(self.waiting, key=self.key):
            if step.tokens_left == 0 or step.sequences_left == 0:
                break
            if step.blocks_for(request.known) > step.free_blocks:
                break
            tokens = min(request.known, step.tokens_left)
            step.admit(request)
            step.grow(request, tokens)
            step.schedule(request, tokens)
