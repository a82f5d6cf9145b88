# SPDX-License-Identifier: GPL-2.0-only
"""Sample requests within a limit of CPU time: all requests of some time windows, and no others.

Between windows there may be a pause, in which events are off. Before a pause, events stay on until
the window's requests have ended, but for 1 s at most. So slow requests are not missed. The length
of a pause depends on the CPU time that was used: on a slow disk there are no pauses, and every
request is seen.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from triagectl.requests import Matcher
from triagectl.tracefs import Instance

#: The share of a core that sampling may use. `top` must stay below 2 %, including Python's start.
LIMIT = 0.015
#: The shortest and the longest time, in s, that a window stays open before its events are read.
_SLICE = 0.002
_SLICE_MOST = 0.1
#: The wanted number of events in a window: enough to be worth the cost of opening it, but few
#: enough for the buffer of one CPU, in case one CPU has them all.
_EVENTS = 1500
#: CPU time, in s, that may be used in advance: enough for several windows. Without this advance,
#: `top` would pause after each window even on a slow disk: opening a window costs 2 ms, and LIMIT
#: allows 1.5 ms for the longest window.
_AHEAD = 0.01
#: The longest quiet time, in s, whose CPU time may be used later: enough for drawing a screen.
#: Without this bound, a burst after a quiet hour could take a whole core for nearly a minute.
_SAVED = 1.0
#: Forget a bio that was not sent to the device within this time, in ns: it will never be sent. The
#: kernel reports a hung task after twice this time.
_EXPIRE_NS = 60 * 10**9
#: The longest wait for the last requests of a window, in s.
_TAIL = 1.0


@dataclass
class Sampler:
    """Feeds a matcher with the events of some windows of time.

    limit    the largest share of a core that this process may use
    cpu      returns the CPU time of this process so far, in s
    context  if true, also follow requests that come between a window's end and the end of its last
             request: they may delay the window's requests
    """

    instance: Instance
    matcher: Matcher
    limit: float = LIMIT
    clock: Callable[[], float] = time.monotonic
    cpu: Callable[[], float] = time.process_time
    sleep: Callable[[float], None] = time.sleep
    context: bool = False
    seen_s: float = 0.0

    def __post_init__(self) -> None:
        self._slice = _SLICE
        # Earlier CPU time, such as Python's start, does not belong to this measurement.
        self._began = self.clock()
        self._cpu_began = self.cpu()

    def run(self, until: float) -> None:
        """Sample until the clock shows `until`. The matcher keeps requests that are not done."""
        self.matcher.expire(self._now_ns() - _EXPIRE_NS)
        while self.clock() < until:
            # A pause may be due at once: an earlier call may have ended before its pause.
            pause = self._debt()
            if pause > 0:
                self._close()
                # Vary the pause at random, so that regular events are not always missed.
                pause *= random.uniform(0.8, 1.2)
                self.sleep(max(0.0, min(pause, until - self.clock())))
            if self.clock() < until:
                self._window(until)

    def end(self) -> None:
        """Turn the events off at once, and give up the requests that are not done.

        Without this call the next run() goes on with these requests, even if settings have changed.
        """
        # Note the time first: decoding the last events takes time, in which nothing is recorded.
        end = self._now_ns()
        self.instance.record(False)
        self._look()
        self.matcher.give_up(end)
        self.matcher.forget()

    def _debt(self) -> float:
        """Return for how long, in s, this process must pause to keep to its limit."""
        used = (self.cpu() - self._cpu_began) / self.limit
        self._began = max(self._began, self.clock() - used - _SAVED)
        return used - _AHEAD / self.limit - (self.clock() - self._began)

    def _window(self, until: float) -> None:
        begin = self.clock()
        self.instance.record(True)
        opened = self.clock()
        # On a slow or busy computer, opening a window may take longer than a short slice, and a
        # pause follows. So keep the window open at least as long as its opening took.
        end = min(until, opened + max(self._slice, opened - begin))
        watched, count, step = 0.0, 0, self._slice
        while True:
            since = self.clock()
            self.sleep(max(0.0, min(step, end - since)))
            watched += self.clock() - since
            count += self._look()
            if count >= _EVENTS or self.clock() >= end:
                break
            step *= 2  # so few events came that twice as many fit in the buffer
        self.seen_s += self.clock() - begin
        self._slice = min(_SLICE_MOST, max(_SLICE, watched * _EVENTS / max(1, count)))

    def _look(self) -> int:
        """Feed the matcher with the events since the last call. Return their number."""
        lost = self.instance.lost
        events = self.instance.read()
        if self.instance.lost > lost:
            # The ends of some requests may be among the lost events.
            self.matcher.forget()
        self.matcher.feed(events)
        return len(events)

    def _close(self) -> None:
        """Wait for the window's last requests, then turn the events off."""
        # Requests that come from now on do not belong to the window.
        latest = self.clock() + _TAIL
        self.matcher.open = self.context
        window = set(self.matcher.pending)
        while window & self.matcher.pending.keys() and self.clock() < latest:
            self.sleep(_SLICE)
            self._look()
        self.end()
        self.matcher.open = True

    def _now_ns(self) -> int:
        return int(self.clock() * 1e9)
