"""A simulated gang of launchers whose first round runs."""

import random as pseudorandom
from typing import Any

from support.simulated_gang import World
from tfdist_launch.leader import Leader


def settled(size: int = 2, seed: int = 1, **options: Any) -> World:
    """Return a world whose gang runs its first round."""
    world = World(size, pseudorandom.Random(seed), **options)  # noqa: S311  no secret
    world.run(60)
    assert world.running == [0] * size
    return world


def leader(world: World) -> Leader:
    """Return the current leader."""
    node = world.at(0)
    assert node is not None
    assert node.leader is not None
    return node.leader
