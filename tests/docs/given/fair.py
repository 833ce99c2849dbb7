"""The policy that pages call fair.py: a long prompt waits somewhat longer than a short one."""
import twinserve


class Fair(twinserve.Policy):
    first_come_first_served = False
    share = 1.0

    def plan(self, step):
        done = step.schedule_decodes(self.running)
        for request in self.running[done:]:
            tokens = min(request.left, step.tokens_left)
            if tokens > 0 and step.grow(request, request.computed + tokens):
                step.schedule(request, tokens)
            elif tokens > 0 and request is not self.running[-1]:
                step.preempt(self.running[-1])
                break
        for request in sorted(self.waiting, key=self.deadline):
            tokens = min(request.known, step.tokens_left)
            if tokens == 0 or step.sequences_left == 0:
                break
            if step.blocks_for(request.known) > step.free_blocks:
                break
            step.admit(request)
            assert step.grow(request, tokens)
            step.schedule(request, tokens)

    def deadline(self, request):
        return request.arrival_s + self.share * request.prompt_tokens / 2000
