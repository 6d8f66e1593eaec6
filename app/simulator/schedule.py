"""Which episode, where, when: placed by the seed so that no two touch the same host, or exactly as asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.simulator.fleet import Fleet, Vm, build_fleet
from app.simulator.rhythm import generator
from app.simulator.settings import CHANGES, FAULTS, SLOW, Planned, SimulatorSettings
from pipelines.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

SETTLE = 900.0  # seconds that a host is left alone after an episode
SETTLE_ASKED = 300.0  # the same where times are asked for
SETTLE_CHANGE = 1800.0  # and after a lasting change began
TRIES = 80


@dataclass(frozen=True)
class Disturbance:
    """One labelled thing that happens. Times are seconds from the start, whole intervals; `end` None means for good.

    `hosts` are touched directly, `related` through the physical host. `services` are those concerned. `variant` is in
    [0, 1) and picks among the forms that a kind has. `windows` are the runs of a recurring job.
    """

    kind: str
    begin: float
    end: float | None
    hosts: tuple[str, ...]
    related: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    variant: float = 0.0
    windows: tuple[tuple[float, float], ...] = ()

    @property
    def category(self) -> str:
        """`fault`, `change`, or `data` for trouble with the data alone."""
        if self.kind in FAULTS:
            return "fault"
        return "change" if self.kind in CHANGES else "data"


@dataclass(frozen=True)
class Placement:
    """The fleet, with the machines that are added later, and the episodes in order of time."""

    fleet: Fleet
    episodes: tuple[Disturbance, ...]


@dataclass
class _Booking:
    """Who is busy when, and how often a host was chosen."""

    fleet: Fleet
    rng: np.random.Generator
    gap: float
    busy: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def free(self, host: str, begin: float, end: float) -> bool:
        return all(end + self.gap <= a or begin >= b for a, b in self.busy.get(host, []))

    def occupy(self, hosts: Iterable[str], begin: float, until: float) -> None:
        for host in hosts:
            self.busy.setdefault(host, []).append((begin, until))

    def candidates(self, begin: float, end: float) -> list[Vm]:
        """Free virtual machines, those that were chosen least first, ties by chance."""
        order = self.rng.permutation(len(self.fleet.vms))
        free = [self.fleet.vms[i] for i in order if self.free(self.fleet.vms[i].name, begin, end)]
        return sorted(free, key=lambda vm: len(self.busy.get(vm.name, [])))


def plan(settings: SimulatorSettings) -> Placement:
    """Place the episodes. Raises InputError when one of an explicit schedule fits nowhere."""
    fleet = build_fleet(settings.hosts, settings.seed, services=settings.services)
    span = settings.hours * 3600 - settings.clean_seconds
    gap = min(SETTLE, span / 4) if settings.schedule is None else SETTLE_ASKED
    if settings.schedule is not None:
        placed = _place_schedule(settings, fleet, gap)
    else:
        placed = _place_all(settings, _Booking(fleet, generator(settings.seed, "schedule"), gap), span)
    placed.sort(key=lambda episode: (episode.begin, episode.kind, episode.hosts))
    return _with_added_machines(settings, placed)


def _place_schedule(settings: SimulatorSettings, fleet: Fleet, gap: float) -> list[Disturbance]:
    """Every episode that was asked for. Which hosts are left for the last one is chance, so chance is asked again."""
    problem: InputError | None = None
    for attempt in range(TRIES):
        name = f"schedule {attempt}" if attempt else "schedule"
        booking = _Booking(fleet, generator(settings.seed, name), gap)
        # Those that need a whole physical host first, while there is one.
        order = sorted(
            settings.schedule or (), key=lambda planned: (planned.kind != "noisy_neighbour", not planned.host)
        )
        try:
            return [_place_asked(settings, booking, planned) for planned in order]
        except InputError as error:
            problem = problem or error
    raise problem or InputError("simulator: schedule: nothing to place")


def _place_asked(settings: SimulatorSettings, booking: _Booking, planned: Planned) -> Disturbance:
    begin, length = _on_grid(planned.start, settings), max(_on_grid(planned.duration, settings), _grid(settings))
    found = _find(settings, booking, planned.kind, begin, begin + length, host=planned.host)
    if found is None:
        where = planned.host or f"any of {settings.hosts} hosts"
        msg = (
            f"simulator: schedule: {planned.kind} at {planned.start:g} s does not fit on {where}; "
            "every host is busy or unknown then: move it, or simulate more hosts"
        )
        raise InputError(msg)
    return found


def _place_all(settings: SimulatorSettings, booking: _Booking, span: float) -> list[Disturbance]:
    """Every wanted kind once, faults again for every three hours; long ones first because they are hardest to fit."""
    rng = booking.rng
    rounds = max(1, int(span / 3 / 3600))
    kinds = [kind for turn in range(rounds) for kind in settings.wanted_kinds if turn == 0 or kind not in CHANGES]
    slots = rng.permutation(len(kinds))
    order = sorted(range(len(kinds)), key=lambda i: (kinds[i] not in SLOW, slots[i]))
    placed = []
    for i in order:
        length = _on_grid(min(_duration(kinds[i], rng), 0.6 * span), settings)
        room = span - length
        for attempt in range(TRIES):
            share = (slots[i] + rng.random()) / len(kinds) if attempt < 5 else rng.random()
            begin = _on_grid(settings.clean_seconds + share * room, settings)
            episode = _find(settings, booking, kinds[i], begin, begin + length) if length else None
            if episode is not None:
                placed.append(episode)
                break
    return placed


def _duration(kind: str, rng: np.random.Generator) -> float:
    if kind in SLOW:
        return float(rng.uniform(900, 2400))
    return 180.0 if kind == "wrong_clock" else float(rng.uniform(150, 600))


def _grid(settings: SimulatorSettings) -> float:
    return float(settings.interval_seconds)


def _on_grid(seconds: float, settings: SimulatorSettings) -> float:
    return round(seconds / settings.interval_seconds) * float(settings.interval_seconds)


def _find(
    settings: SimulatorSettings, booking: _Booking, kind: str, begin: float, end: float, *, host: str = ""
) -> Disturbance | None:
    """An episode of this kind at this time on free hosts, booked; None when there is no room."""
    group_of = booking.fleet.group_of
    free = booking.candidates(begin, end)
    if host:
        free.sort(key=lambda vm: (vm.name != host, group_of[vm.name].physical != host))
    whole = kind == "noisy_neighbour" or (kind == "slow_drift" and host.startswith("ph"))
    episode = _shape(settings, booking, kind, begin, end, free=free, whole=whole if host else None)
    if episode is None or (host and host not in (*episode.hosts, *(episode.related if whole else ()))):
        return None
    until = begin + min(SETTLE_CHANGE, 2 * booking.gap) if episode.end is None else end + booking.gap
    hosts = {*episode.hosts, *(episode.related if kind == "noisy_neighbour" else ())}
    for used in episode.hosts:
        if used == group_of[used].physical:
            hosts.update(group_of[used].hosts)
    booking.occupy(sorted(hosts), begin, until)
    for window in episode.windows[1:]:
        booking.occupy(episode.hosts, window[0], window[1] + booking.gap)
    return episode


def _shape(
    settings: SimulatorSettings,
    booking: _Booking,
    kind: str,
    begin: float,
    end: float,
    *,
    free: list[Vm],
    whole: bool | None = None,
) -> Disturbance | None:
    """Which hosts and services an episode of this kind has, given the free virtual machines in order of preference.

    `whole` says whether a drift is one of the physical host; None leaves that to chance.
    """
    variant = float(booking.rng.random())
    if not free:
        return None
    vm = free[0]
    physical = booking.fleet.group_of[vm.name].physical
    draft = Disturbance(kind, begin, end, (vm.name,), (physical,), vm.services[:1], variant)
    if kind in CHANGES:
        return _change(settings, booking, draft, free)
    if kind == "noisy_neighbour":
        return _whole_group(booking, draft, begin, end, free)
    if kind == "slow_drift" and (variant < 0.4 if whole is None else whole):
        found = _whole_group(booking, draft, begin, end, free)
        return found and replace(found, hosts=found.related, related=found.hosts, services=())
    return draft


def _change(settings: SimulatorSettings, booking: _Booking, draft: Disturbance, free: list[Vm]) -> Disturbance:
    services = free[0].services[:1]
    windows: tuple[tuple[float, float], ...] = ()
    match draft.kind:
        case "deployment":
            names = tuple(sorted(_instances_of(services[0], free)[:3]))
        case "traffic_moved":
            mains = dict.fromkeys(vm.services[0] for vm in free)
            pairs = (names for service in mains if len(names := _mains_of(service, free)) > 1)
            names = next(pairs, (free[0].name,))[:2]
            services = booking.fleet.vm(names[0]).services[:1]
        case "nightly_job":
            names, services = tuple(vm.name for vm in free[:2]), ("backup",)
            windows = _runs(settings, draft.begin, (draft.end or draft.begin) - draft.begin)
        case _:  # machines_added: they get their names once all episodes are placed
            names, services = (), ()
    related = _physical(booking, names)
    return replace(draft, end=None, hosts=names, related=related, services=services, windows=windows)


def _whole_group(booking: _Booking, draft: Disturbance, begin: float, end: float, free: list[Vm]) -> Disturbance | None:
    """The same on the first physical host all of whose machines are free: they are the hosts, it is related."""
    for vm in free:
        group = booking.fleet.group_of[vm.name]
        if all(booking.free(name, begin, end) for name in group.hosts):
            names = tuple(other.name for other in group.vms)
            services = tuple(dict.fromkeys(s for other in group.vms for s in other.services))
            return replace(draft, hosts=names, related=(group.physical,), services=services)
    return None


def _instances_of(service: str, free: list[Vm]) -> tuple[str, ...]:
    return tuple(vm.name for vm in free if service in vm.services)


def _mains_of(service: str, free: list[Vm]) -> tuple[str, ...]:
    return tuple(vm.name for vm in free if vm.services[0] == service)


def _physical(booking: _Booking, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(booking.fleet.group_of[name].physical for name in names))


def _runs(settings: SimulatorSettings, begin: float, length: float) -> tuple[tuple[float, float], ...]:
    """Runs of the nightly job: every 24 hours where there is time for two, else hourly, so that it recurs at all."""
    total = settings.steps * settings.interval_seconds
    left = total - begin
    period = 86_400.0 if left > 30 * 3600 else 3600.0 if left > 4200 else 1800.0
    first, runs = begin, []
    while first < total:
        runs.append((first, min(first + length, total)))
        first += _on_grid(period, settings)
    return tuple(runs)


def _with_added_machines(settings: SimulatorSettings, placed: list[Disturbance]) -> Placement:
    """The fleet with the machines that `machines_added` brings, and those episodes with the machines' names."""
    each = max(1, settings.hosts // 10)
    births = [episode.begin for episode in placed if episode.kind == "machines_added" for _ in range(each)]
    fleet = build_fleet(settings.hosts, settings.seed, births, settings.services)
    new = iter([vm for vm in fleet.vms if vm.born > 0 or vm.index >= len(fleet.vms) - len(births)])
    episodes = []
    for episode in placed:
        if episode.kind != "machines_added":
            episodes.append(episode)
            continue
        added = [next(new) for _ in range(each)]
        names = tuple(vm.name for vm in added)
        related = tuple(dict.fromkeys(fleet.group_of[name].physical for name in names))
        services = tuple(dict.fromkeys(service for vm in added for service in vm.services))
        episodes.append(replace(episode, hosts=names, related=related, services=services))
    return Placement(fleet, tuple(episodes))
