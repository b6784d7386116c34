"""BAIT in float64 on the host: the direct form, for embeddings of few dimensions, and the backward pass.

Where labelled and added rows can span much of the space of embeddings, what is left of a candidate outside their span
is a small difference of large products, too small for float32 at small ridges. There the dimension is small, so its
matrices can be formed.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

_BLOCK = 4_096  # embeddings formed at once


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # embeddings may be as large as 1e30
def direct(
    c: np.ndarray,
    z: np.ndarray,
    labels_c: np.ndarray,
    labels_z: np.ndarray,
    available: np.ndarray,
    usable: np.ndarray,
    n_labelled: np.ndarray,
    ridge: np.ndarray,
    k: int,
    n_forward: int,
) -> np.ndarray:
    """(k,) rows. c and z are zero on rows that are not usable, labels_c on labelled rows that do not count."""
    c, z, labels_c, labels_z = (np.asarray(rows, np.float64) for rows in (c, z, labels_c, labels_z))
    available, usable = np.array(available), np.asarray(usable)
    ridge, n_labelled = float(ridge), int(n_labelled)
    scale, n_usable = np.sqrt(k / (n_labelled + k)), max(int(usable.sum()), 1)
    dimension = c.shape[1] * z.shape[1]

    def embeddings(c: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.einsum("nc,nh->nch", c, z).reshape(len(c), -1)

    def outer_products(c: np.ndarray, z: np.ndarray) -> np.ndarray:
        total = np.zeros((dimension, dimension))
        for start in range(0, len(c), _BLOCK):
            rows = embeddings(c[start : start + _BLOCK], z[start : start + _BLOCK])
            total += rows.T @ rows
        return total

    def along(vector: np.ndarray) -> np.ndarray:
        """Every candidate's product with a vector; over the longer factor first, which leaves the smaller array."""
        vector = vector.reshape(c.shape[1], -1)
        if c.shape[1] < z.shape[1]:
            return scale * np.einsum("nc,nc->n", z @ vector.T, c)
        return scale * np.einsum("nh,nh->n", c @ vector, z)

    def quadratic(matrix: np.ndarray) -> np.ndarray:
        blocks = [embeddings(c[i : i + _BLOCK], z[i : i + _BLOCK]) for i in range(0, len(c), _BLOCK)]
        return scale**2 * np.concatenate([((rows @ matrix) * rows).sum(1) for rows in blocks])

    information = n_labelled / (n_labelled + k) * outer_products(labels_c, labels_z)
    # Below what float64 resolves beside the largest label, a ridge would vanish and the matrix be singular.
    information += max(ridge, 1e-13 * np.diagonal(information).max(initial=0)) * np.eye(dimension)
    first_inverse = cho_solve(cho_factor(information), np.eye(dimension))
    pool_information = outer_products(c, z) / n_usable
    spread = first_inverse @ pool_information @ first_inverse
    a, b, inverse = quadratic(first_inverse), quadratic(spread), first_inverse.copy()
    rows: list[int] = []
    for _ in range(min(n_forward, int(available.sum()))):
        candidates = available & usable if (available & usable).any() else available
        row = int(np.argmax(np.where(candidates, np.nan_to_num(b / (1 + a)), -np.inf)))  # overflow picks nobody twice
        step = inverse @ (scale * embeddings(c[[row]], z[[row]])[0])
        k_row, q_row = along(step), along(inverse @ (pool_information @ step))
        a_row = a[row]
        share = k_row / (1 + a_row)
        b = b + share * (share * q_row[row] - 2 * q_row)
        a = a - share * k_row
        inverse -= np.outer(step / (1 + a_row), step)
        available[row] = False
        rows.append(row)
    added = scale * embeddings(c[rows], z[rows])
    kept = remove(added @ first_inverse @ added.T, added @ spread @ added.T, np.ones(len(rows), bool), k)
    return np.asarray(rows, np.int32)[kept]


def remove(inner: np.ndarray, spread: np.ndarray, kept: np.ndarray, k: int) -> np.ndarray:
    """Backward pass among the m added rows, on (m, m) matrices alone: the mask of the k rows that stay.

    With A = inner = G M_0^-1 G' and B = spread = G M_0^-1 M_U M_0^-1 G' of the added rows, and D = (I + A)^-1, taking
    row i out raises the trace by (D B D)_ii / D_ii: no 1 - a_i, which cancels, is ever formed.
    """
    inner, spread, kept = np.asarray(inner, np.float64), np.asarray(spread, np.float64), np.array(kept)
    while kept.sum() > k:
        index = np.flatnonzero(kept)
        # Eigenvalues of I + A are 1 or more; what rounding makes less of them is set right.
        values, vectors = np.linalg.eigh(np.eye(len(index)) + inner[np.ix_(index, index)])
        d = (vectors / np.maximum(values, 1)) @ vectors.T
        rise = ((d @ spread[np.ix_(index, index)]) * d.T).sum(1) / np.diagonal(d)
        kept[index[np.argmin(rise)]] = False
    return kept
