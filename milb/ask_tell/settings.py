"""Settings of a learner's networks when none are given: from the numbers of labels, inputs and outputs alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milb.protocol import Protocol

SMALLEST_BUFFER = 64
PRIOR = 160  # labels' worth of weight decay


def capacity(n: int, least: int = SMALLEST_BUFFER) -> int:
    """Rows of the buffer that n labels are kept in: the next power of two, at least 64.

    Programs are compiled for a buffer, so they are compiled again only when the number of labels has doubled.
    """
    return max(least, 1 << (max(n, 1) - 1).bit_length())


def choose(n: int, n_inputs: int, n_outputs: int, n_pool: int, **changes: Any) -> Protocol:
    """A protocol for n labels of dx inputs and D outputs.

    Eight networks of one hidden layer and a linear one, with mixtures of three Gaussians. Weight decay falls as 1 / n,
    as the weight of a prior does: with few labels it is what keeps a network from claiming certainty. Decay and width
    follow the next power of two, not n, so that settings stay for a while. The first 2 (dx + 1) labels are asked by a
    design, `n_initial`. Found on 16 to 128 labels of the furnace and of the ternary phases, and not for your problem:
    look at `Learner.report`.

    Args:
        n: labels to train on.
        n_inputs, n_outputs: dx and D.
        n_pool: rows of the pool.
        changes: fields of `milb.protocol.Protocol` that shall be otherwise; n_pool, n_test, n_rounds and n_query play
            no part in a learner.

    Raises:
        TypeError: an unknown field. ValueError: a value that a protocol refuses.
    """
    rows = capacity(n)
    chosen = {
        "n_pool": n_pool,
        "n_test": 1,
        "n_initial": min(2 * (n_inputs + 1), n_pool),
        "n_rounds": 0,
        "n_query": 1,
        "n_members": 8,
        "n_components": 3,
        "width": 64 if rows * (n_inputs + n_outputs) < 8_192 else 128,
        "depth": 2,
        "batch_size": 64,
        "steps_per_label": 20,
        "min_steps": 300,
        "max_steps": 10_000,
        "learning_rate": 2e-3,
        "weight_decay": PRIOR / capacity(n, 16),
    }
    return Protocol(**{**chosen, **changes})


def checked(protocol: Any, n_pool: int, n_inputs: int) -> Protocol | dict[str, Any] | None:
    """A learner's argument, once it is a protocol, changes to the chosen one, or None; TypeError, ValueError if not."""
    if protocol is None or isinstance(protocol, Protocol):
        return protocol
    if not isinstance(protocol, Mapping):
        raise TypeError(f"protocol must be a Protocol, a dict of its fields or None, got {protocol!r}")
    try:
        chosen = choose(1, n_inputs, 1, n_pool, **protocol)
    except TypeError as error:
        raise ValueError(f"protocol: {error}") from None
    return {name: getattr(chosen, name) for name in protocol}


def describe(protocol: Protocol, n: int, n_inputs: int, n_outputs: int) -> str:
    """One line of what is trained, for people."""
    steps = min(max(protocol.steps_per_label * n, protocol.min_steps), protocol.max_steps)
    return (
        f"{n} labels, {n_inputs} inputs, {n_outputs} output(s): {protocol.n_members} networks of {protocol.depth} "
        f"layers of {protocol.width}, {protocol.n_components} components, {steps} steps of rate "
        f"{protocol.learning_rate:g}, weight decay {protocol.weight_decay:g}"
    )
