"""What one host, and the whole fleet, may cost: how many series, services and hosts are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from models.core.parameters import check_positive

UNEVEN = 1.5  # times its share of the series a shard may have: they come with their hosts, which have more or fewer


@dataclass(frozen=True)
class LimitParameters:
    """The most series, services and hosts that are kept, whatever is sent.

    What is known is kept; what is new is admitted up to the limit, in the order of a hash of its name. What is left out is
    counted, is a dead letter for each host, limit and window, and an incident of the host. See [limits](limits.md).

    Parameters
    ----------
    metrics_per_host
        Metric series of a host. Raising it takes more memory: `kappa plan` says how much.
    templates_per_host
        Log templates of a host.
    services_per_host
        Services of a host.
    new_series_per_host
        Metric series and log templates of a host that may be new in one window; more wait for later windows. It bounds how
        much longer a window takes in which many are new.
    hosts
        Hosts in the fleet. Each shard has its share, and a margin because hosts are spread by a hash: a fleet of this size
        loses no host, and one that is 15 % larger does.
    all_series
        Metric series, log templates and log levels of all hosts together: what memory is in proportion to, whatever hosts are made up.
        Each shard has half as much again as its share, and no less than one host may have. Raising it takes more memory:
        `kappa plan` says how much.
    """

    metrics_per_host: int = 10_000
    templates_per_host: int = 2_000
    services_per_host: int = 200
    new_series_per_host: int = 5_000
    hosts: int = 50_000
    all_series: int = 500_000

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        check_positive(self, (one.name for one in fields(self)))

    def of_shard(self, shards: int) -> LimitParameters:
        """The same for one of so many shards: `hosts` and `all_series` are its share.

        The number of hosts in a shard is close to a Poisson number. Its mean and five standard deviations are exceeded by one shard
        in a million; the 5 on top are for means so small that this is no longer so.
        """
        mean = self.hosts / shards
        share = self.hosts if shards == 1 else math.ceil(mean + 5 * math.sqrt(mean)) + 5
        of_hosts = self.metrics_per_host + self.templates_per_host
        series = self.all_series if shards == 1 else max(math.ceil(UNEVEN * self.all_series / shards), of_hosts)
        return replace(self, hosts=share, all_series=series)

    @property
    def metric_rows(self) -> int:
        """Rows of metrics that `extract` writes of a host and window at most: all that may be known, and all that may be new."""
        return self.metrics_per_host + self.new_series_per_host

    @property
    def template_rows(self) -> int:
        """The same of log templates."""
        return self.templates_per_host + self.new_series_per_host
