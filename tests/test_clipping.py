"""Clipping: across members it is optax's on stacked arrays, within members each is blind to the others."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from milb.clipping import CLIPS
from milb.devices import mesh_for
from milb.mdn import MixtureDensityNetwork, initialise

pytestmark = pytest.mark.slow


def tree_like_parameters(seed, scale=1.0):
    network = MixtureDensityNetwork(8, 2, 3, 2)
    shapes = initialise(jax.random.key(0), network, 4, 5)
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(scale * rng.normal(size=leaf.shape), jnp.float32), shapes)


def test_released_clip_equals_optax_on_stacked_arrays():
    """optax on one head (E, h, K, 1 + 2D), as released; here on three, which are its slots."""
    gradients, parameters = tree_like_parameters(1, scale=3.0), tree_like_parameters(2, scale=0.1)
    mesh = mesh_for(1)
    spec = jax.sharding.PartitionSpec()
    clip = jax.jit(jax.shard_map(
        lambda g, p: CLIPS["released"](g, p, 0.1, 4, ("devices",)), mesh=mesh, in_specs=(spec, spec), out_specs=spec,
        check_vma=False,
    ))  # fmt: skip

    def one_head(tree):
        tree = dict(tree["params"])
        heads = [tree.pop(name) for name in ("logits", "means", "variances")]
        tree["head"] = {name: jnp.concatenate([head[name] for head in heads], axis=-1) for name in ("kernel", "bias")}
        return tree

    averaged = jax.tree.map(lambda leaf: leaf / 4, one_head(gradients))
    update = jax.jit(optax.adaptive_grad_clip(0.1).update)
    expected, _ = update(averaged, optax.EmptyState(), one_head(parameters))
    for a, b in zip(jax.tree.leaves(one_head(clip(gradients, parameters))), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.exhaustive
def test_member_clip_is_blind_to_other_members():
    gradients, parameters = tree_like_parameters(1, scale=3.0), tree_like_parameters(2, scale=0.1)
    clipped = CLIPS["member"](gradients, parameters, 0.1, 4, ("devices",))
    alone = jax.tree.map(lambda leaf: leaf[:1], (gradients, parameters))
    for a, b in zip(jax.tree.leaves(clipped), jax.tree.leaves(CLIPS["member"](*alone, 0.1, 1, ())), strict=True):
        np.testing.assert_allclose(a[:1], b, rtol=1e-6)
    assert not np.allclose(clipped["params"]["layers_0"]["kernel"], gradients["params"]["layers_0"]["kernel"])
