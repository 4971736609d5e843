"""Every GPU of a Ray cluster as a lane; Ray is imported only when this pool is opened."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from advisor.errors import AdvisorError, MissingExtraError
from advisor.tuner.pool import Done, LocalPool, compilers_for
from advisor.tuner.work import Failed, Failure, Outcome, Work
from advisor.tuner.worker import Setup

_POLL_S = 0.2
_TRIES = 3
_START_S = 300.0


class LaneActor:
    """One GPU of the cluster with its compile processes; runs inside a Ray actor."""

    def __init__(self, setup: Setup, compilers: int) -> None:
        """Open the GPU that Ray gives this actor; without GPUs (a rehearsal) a made-up one."""
        import ray

        gpus = [int(gpu) for gpu in ray.get_gpu_ids()]
        node = str(ray.get_runtime_context().get_node_id())[:8]
        self._name = f"{node}/gpu{gpus[0]}" if gpus else f"{node}/process{os.getpid()}"
        self._pool = LocalPool(setup, gpus[:1] or (0,), compilers)

    def describe(self) -> tuple[str, str]:
        """Wait for the GPU and return where it is and its name."""
        while not self._pool.device:
            self._pool.collect(_POLL_S)
        return self._name, self._pool.device

    def submit(self, work: list[Work]) -> None:
        """Queue work."""
        for piece in work:
            self._pool.submit(0, piece)

    def poll(self) -> list[tuple[Work, Outcome]]:
        """Return the answers that have come."""
        return [(done.work, done.outcome) for done in self._pool.collect(_POLL_S)]

    def cancel(self) -> list[Work]:
        """Drop what has not begun."""
        return self._pool.cancel()

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()


@dataclass(slots=True)
class _RemoteLane:
    actor: Any
    name: str
    alive: bool = True
    poll: Any = None
    outstanding: dict[Work, None] = field(default_factory=dict)
    unsent: list[Work] = field(default_factory=list)


class RayPool:
    """The GPUs of a Ray cluster. A lost node's work goes to the lanes that are left."""

    def __init__(
        self,
        setup: Setup,
        address: str,
        *,
        gpus_needed: bool = True,
        lanes: int | None = None,
        compilers: int | None = None,
    ) -> None:
        """Join a cluster and open its GPUs.

        Args:
            setup: How to measure.
            address: Of the cluster; `auto` for the one this machine belongs to, `local` to start one
                here.
            gpus_needed: False for a rehearsal, whose lanes take a CPU each.
            lanes: How many; None for all GPUs (all CPUs of a rehearsal).
            compilers: Compile processes per lane; None for an equal share of this machine's cores.

        Raises:
            MissingExtraError: Without Ray.
            AdvisorError: If the cluster has no GPU, or GPUs of several kinds.
        """
        self._ray = _import_ray()
        self._device = ""
        if not self._ray.is_initialized():
            where = None if address == "local" else address
            self._ray.init(address=where, log_to_driver=False, logging_level="ERROR")
        resource = "GPU" if gpus_needed else "CPU"
        count = lanes or int(self._ray.cluster_resources().get(resource, 0))
        if not count:
            raise AdvisorError("the Ray cluster has no GPU: start its workers with --num-gpus")
        share = compilers or max(1, compilers_for(0) // count)
        options = {"num_gpus": 1} if gpus_needed else {"num_cpus": 1}
        remote = self._ray.remote(LaneActor).options(max_restarts=0, **options)
        actors = [remote.remote(setup, share) for _ in range(count)]
        self._lanes = [self._describe(actor) for actor in actors]
        self._tries: dict[Work, int] = {}
        self._failed: list[Done] = []

    @property
    def lanes(self) -> tuple[int, ...]:
        """Return the lanes that can take work now."""
        return tuple(place for place, lane in enumerate(self._lanes) if lane.alive)

    def name(self, lane: int) -> str:
        """Return where a lane is, for journals and reports."""
        return self._lanes[lane].name

    @property
    def device(self) -> str:
        """Return the GPUs' common name."""
        return self._device

    def submit(self, lane: int, work: Work) -> None:
        """Queue a piece of work on a lane, or on another if that one is lost."""
        target = self._lanes[lane] if self._lanes[lane].alive else self._least_loaded()
        target.outstanding[work] = None
        target.unsent.append(work)

    def collect(self, timeout_s: float) -> list[Done]:
        """Wait for answers, at most so long, and return those that are there."""
        for lane in self._alive():
            self._send(lane)
        polls = {lane.poll: place for place, lane in enumerate(self._lanes) if lane.alive}
        ready, _ = self._ray.wait(list(polls), num_returns=1, timeout=timeout_s)
        done: list[Done] = []
        for reference in ready:
            done += self._hear(polls[reference], reference)
        done += self._failed
        self._failed = []
        return done

    def cancel(self) -> list[Work]:
        """Drop all work that no GPU has begun, and return it."""
        dropped: list[Work] = []
        for lane in self._alive():
            unsent, lane.unsent = lane.unsent, []
            begun = self._ask(lane.actor.cancel) or []
            for work in [*unsent, *begun]:
                lane.outstanding.pop(work, None)
                dropped.append(work)
        return dropped

    def close(self) -> None:
        """End all lanes; the cluster stays."""
        for lane in self._alive():
            self._ask(lane.actor.close)
            self._ray.kill(lane.actor)

    def _describe(self, actor: Any) -> _RemoteLane:
        try:
            name, device = self._ray.get(actor.describe.remote(), timeout=_START_S)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise AdvisorError(f"a lane of the Ray cluster cannot be opened: {reason}") from error
        if self._device and device != self._device:
            raise AdvisorError(
                f"the Ray cluster has GPUs of several kinds ({self._device}, {device}): tune each kind "
                "by itself, for their config files differ"
            )
        self._device = str(device)
        return _RemoteLane(actor=actor, name=str(name))

    def _alive(self) -> list[_RemoteLane]:
        return [lane for lane in self._lanes if lane.alive]

    def _least_loaded(self) -> _RemoteLane:
        alive = self._alive()
        if not alive:
            raise AdvisorError("all lanes of the Ray cluster are lost; the journal has the rest")
        return min(alive, key=lambda lane: len(lane.outstanding))

    def _send(self, lane: _RemoteLane) -> None:
        if lane.unsent:
            lane.actor.submit.remote(lane.unsent)
            lane.unsent = []
        if lane.poll is None:
            lane.poll = lane.actor.poll.remote()

    def _hear(self, place: int, reference: Any) -> list[Done]:
        lane = self._lanes[place]
        try:
            answers = self._ray.get(reference)
        except self._ray.exceptions.RayError:
            self._lose(place, lane)
            return []
        lane.poll = None
        for work, _ in answers:
            lane.outstanding.pop(work, None)
        return [Done(lane=place, work=work, outcome=outcome) for work, outcome in answers]

    def _lose(self, place: int, lane: _RemoteLane) -> None:
        """Hand a lost lane's work to the others; what was lost too often has failed."""
        lane.alive = False
        lost = list(lane.outstanding)
        lane.outstanding.clear()
        self._least_loaded()
        for work in lost:
            self._tries[work] = self._tries.get(work, 0) + 1
            if self._tries[work] >= _TRIES:
                failed = Failed(failure=Failure.CRASHED, text=f"lost with {lane.name}")
                self._failed.append(Done(lane=place, work=work, outcome=failed))
            else:
                self.submit(place, work)

    def _ask(self, method: Any) -> Any:
        try:
            return self._ray.get(method.remote(), timeout=_START_S)
        except self._ray.exceptions.RayError:
            return None


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("advisor tune --ray", "ray") from error
    return ray
