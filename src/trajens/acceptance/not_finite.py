"""NaN never enters a path.

A proposal that is not finite is rejected; a current model that is not finite is left for a finite one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from trajens.acceptance.base import Reason, Verdict


def refuse_what_is_not_finite(
    verdict: Verdict, is_last_row: jax.Array, losses: jax.Array, is_valid: jax.Array | None, new: jax.Array
) -> Verdict:
    """The verdict of a test, unless a loss or a proposed parameter is not finite.

    Parameters
    ----------
    verdict : Verdict
        Fields (chains, lanes), as all that follows without further axes.
    is_last_row : bool
        Whether all models of the proposal have been seen; there is no verdict before.
    losses : (chains, lanes, 2, m)
        Of the current and the proposed model.
    is_valid : (chains, lanes, m), optional
        Which of the examples exist.
    new : (chains, lanes, dim)
    """
    is_bad = ~jnp.isfinite(losses)
    if is_valid is not None:
        is_bad &= is_valid[:, :, None]
    is_bad_old, is_bad_new = is_bad[:, :, 0].any(-1), is_bad[:, :, 1].any(-1) | ~jnp.isfinite(new).all(-1)
    is_bad_any = is_bad_old | is_bad_new
    reason = jnp.where(is_bad_new, Reason.NOT_FINITE, Reason.CURRENT_NOT_FINITE)
    return Verdict(
        (verdict.is_decided & is_last_row) | is_bad_any,
        jnp.where(is_bad_any, ~is_bad_new, verdict.is_accepted),
        jnp.where(is_bad_any, reason, verdict.reason).astype(jnp.int32),
        verdict.is_passed & is_last_row & ~is_bad_any,
    )
