"""A scheduling policy in Python: decodes first, then the shortest prompt, in chunks."""
import sys

import twinserve


class ShortestPromptFirst(twinserve.Policy):
    tokens_per_step_max = 2048
    sequences_per_step_max = 256
    first_come_first_served = False

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
        for request in sorted(self.waiting, key=lambda r: (r.prompt_tokens, r.id)):
            if step.tokens_left == 0 or step.sequences_left == 0:
                break
            if step.blocks_for(request.known) > step.free_blocks:
                break
            tokens = min(request.known, step.tokens_left)
            step.admit(request)
            step.grow(request, tokens)
            step.schedule(request, tokens)


if __name__ == "__main__":
    print(twinserve.compare(twinserve.run(sys.argv[1]),
                            twinserve.run(sys.argv[1], policy=ShortestPromptFirst)))
