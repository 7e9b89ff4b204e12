"""Questions to the logbook of a run are answered as if all records were read."""

import numpy as np
import pytest

from trajens.storage.logbook import Logbook


def table(epochs, weights):
    """Records of two chains."""
    return {
        "epoch": np.tile(np.array(epochs), (2, 1)),
        "tilt_weight": np.stack([np.zeros(len(epochs)), np.array(weights, float)]),
    }


@pytest.mark.parametrize("burn_in", [0, 9, 10, 20, 35, 40, 100])
@pytest.mark.parametrize("before", [{}, table([10, 20, 30], [0, 1, 0])])
def test_records_and_audits_after_burn_in_are_those_of_all_tables(before, burn_in):
    log = Logbook(before, None, None, False)
    tables = [before] if before else []
    for number, (epoch, weight) in enumerate(((40, 0), (50, 2), (60, 0))):
        tables.append(table([epoch], [weight]))
        log.add(number, tables[-1], None)
        assert log.recorded_after(burn_in) == sum(int((one["epoch"][0] > burn_in).sum()) for one in tables)
        audited = any(((one["epoch"] > burn_in) & (one["tilt_weight"] > 0)).any() for one in tables)
        assert log.is_audited(burn_in) == audited
