"""A class that is no policy."""


class Scheduler:
    def schedule(self):
        return None
