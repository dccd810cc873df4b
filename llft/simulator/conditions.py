"""What the fault model allows to be failed now (the injector's laws 1, 2 and 4)."""

from __future__ import annotations

from llft.config import PartitionPolicy
from llft.identifiers import GroupId
from llft.simulator.cluster import Cluster, Group
from llft.simulator.process import Process

CASCADE_ROLES = ("primary", "proposing", "recovering")


class Conditions:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._in_model = cluster.profile.in_model
        self.unhealed = False
        """The consequences of a partition are still being healed."""

    def group(self, group_id: GroupId) -> Group:
        return self._cluster.groups[group_id]

    def at_peace(self) -> bool:
        """No partition, and none whose consequences are still being healed (law 4)."""
        if self._cluster.network.partitioned:
            return False
        if self.unhealed and self._cluster.settled():
            self.unhealed = False
        return not self.unhealed

    def head(self, group: Group) -> Process | None:
        """The primary, or whoever is about to become it."""
        primary = group.primary()
        if primary is not None:
            return primary
        return next((one for one in group.processes if one.core.role in CASCADE_ROLES), None)

    def expendable(self, group: Group, victim: Process | None) -> bool:
        """Law 1. Where a majority must be heard, one must be left."""
        if victim is None or victim.paused:
            return False
        left = sum(one is not victim for one in (group.primary(), *group.backups()) if one is not None)
        if group.spec.config.partition is PartitionPolicy.MAJORITY:
            return 2 * left > len(victim.core.membership)
        return any(backup is not victim for backup in group.backups())

    def neighbours_settled(self, group_id: GroupId, *, but: tuple[GroupId, ...] = ()) -> bool:
        """Law 2. A client group of one member that has died stays as it is."""
        neighbours = self._cluster.topology.neighbours(group_id)
        groups = [self.group(neighbour) for neighbour in neighbours if neighbour not in but]
        return all(group.settled() for group in groups if group.processes)

    def fail_head(self, group: Group) -> Process | None:
        """Whom, if anybody."""
        head = self.head(group)
        if head is None or not self.expendable(group, head) or not self.at_peace():
            return None
        if self._in_model and not self.neighbours_settled(group.spec.group_id):
            return None
        return head
