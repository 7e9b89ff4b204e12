"""Runs that go on from Python, from their directory alone or with what it cannot hold."""

import numpy as np
import pytest

import trajens as tj
from tests.small_run import DATA, EPOCHS, SETTINGS, TARGET, StopAfter, assert_same, fresh, sample
from trajens.run.progress import takes_progress


def test_a_stopped_run_goes_on_from_its_directory_and_its_problem(tmp_path):
    whole = sample(None)
    stopped = sample(fresh(tmp_path / "a"), stop=StopAfter(2))
    assert not stopped.is_complete
    assert_same(tj.resume(tmp_path / "a", DATA.problem()), whole)
    # Epochs are added, as those of `extend`.
    assert_same(tj.resume(tmp_path / "a", TARGET, epochs=100), whole.extend(100))


def test_sample_goes_on_to_epochs_in_all(tmp_path):
    whole = sample(None)
    sample(tmp_path / "a", stop=StopAfter(2))
    assert_same(sample(tmp_path / "a", resume=True), whole)
    assert sample(tmp_path / "a", EPOCHS + 50, resume=True).epochs == EPOCHS + 50
    # Where there is nothing yet, it begins.
    assert_same(sample(tmp_path / "b", resume=True), whole)
    with pytest.raises(tj.InputError, match="give out="):
        sample(None, resume=True)


def test_a_run_on_a_budget_goes_on(tmp_path):
    how = {"tau": 3, "budget": 4e4, "start": "random", "records": 8, "progress": False, "chains": 2}
    how["acceptance"] = tj.Penalty(16)
    whole = tj.train(DATA.problem(), **how)
    tj.train(DATA.problem(), out=fresh(tmp_path / "a"), stop=StopAfter(3), **how)
    resumed = tj.resume(tmp_path / "a", DATA.problem())
    assert_same(resumed, whole)
    assert tj.resume(tmp_path / "a", DATA.problem(), epochs=40).epochs == whole.epochs + 40


def test_what_a_directory_cannot_hold_is_asked_for(tmp_path):
    sample(tmp_path / "a", 60, burn_in=20, records=3, observe={"first": lambda path: path[0, 0]})
    with pytest.raises(tj.InputError, match="problem must be given"):
        tj.resume(tmp_path / "a")
    with pytest.raises(tj.InputError, match="observe must be given again, functions named first"):
        tj.resume(tmp_path / "a", TARGET)
    run = tj.resume(tmp_path / "a", TARGET, epochs=20, observe={"first": lambda path: path[0, 0]})
    assert run.epochs == 80
    other = tj.datasets.perceptron(seed=1).problem()
    with pytest.raises(tj.InputError, match="begun with"):
        tj.resume(tmp_path / "a", other, observe={"first": lambda path: path[0, 0]})
    with pytest.raises(tj.InputError, match="must hold a checkpoint"):
        tj.resume(tmp_path / "none", TARGET)


def test_every_part_of_the_library_is_made_again(tmp_path):
    s = np.array([5.0, 20.0])
    target = tj.Target(DATA.problem(), tau=4, sigma=0.1, s=s, prior=1.0)
    move = tj.Mixture([(0.5, tj.SingleSite(refresh=0.5)), (0.5, tj.Segment(3))])
    how = {"move": move, "scan": "random", "exchange": tj.Exchange(every=8), "seed": [1, 1, 2, 2]}
    run = tj.sample(target, 60, chains=4, records=3, acceptance=tj.Barker(), out=tmp_path / "a", **how)
    again = tj.resume(tmp_path / "a", DATA.problem(), epochs=20)
    assert again.settings.move == run.settings.move
    assert again.settings.exchange == run.settings.exchange
    until = tj.Converged(rhat=3.0, ess=100.0)
    run = tj.sample(target, 60, chains=4, records=20, until=until, max_epochs=120, out=tmp_path / "b", tune=True)
    assert tj.resume(tmp_path / "b", target).controller == run.controller


def test_a_function_of_the_progress_stops_a_run():
    seen = []

    def stop(now):
        seen.append(now)
        return now.epoch >= 300

    run = sample(None, stop=stop)
    assert not run.is_complete
    assert 300 <= run.epochs < EPOCHS
    assert all(isinstance(now, tj.Progress) and np.isfinite(now.loss) for now in seen)
    assert takes_progress(stop)
    assert not takes_progress(lambda: True)
    assert not takes_progress(StopAfter(1))
    assert not takes_progress(lambda now=None: True)


def test_what_cannot_watch_a_run_is_refused():
    with pytest.raises(tj.InputError, match="progress must be True, False or a function"):
        sample(None, progress=3)
    for stop in (3, lambda now, then: True):
        with pytest.raises(tj.InputError, match="stop must be a function of nothing or of a Progress"):
            sample(None, stop=stop)
    with pytest.raises(tj.InputError, match="path must be the directory of a run, got 3"):
        tj.resume(3)


def test_old_names_work_with_a_warning():
    short = {**SETTINGS, "burn_in": 4, "records": 2}
    with pytest.warns(FutureWarning, match="example_weights"):
        old = tj.sample(TARGET, 20, scores=np.linspace(1, 2, len(DATA.x)), **short)
    new = tj.sample(TARGET, 20, example_weights=np.linspace(1, 2, len(DATA.x)), **short)
    assert_same(old, new)
    with pytest.warns(FutureWarning, match="until_loss"), pytest.raises(tj.InputError, match="s and until_loss"):
        tj.train(DATA.problem(), loss=0.1, s=5.0)
    with pytest.raises(tj.InputError, match="must not both"):
        tj.train(DATA.problem(), loss=0.1, until_loss=0.1)


def test_models_of_pytrees_take_a_prior_and_start_apart():
    def loss(params, batch):
        return (batch[1] - batch[0] @ params["w"] - params["b"]) ** 2 / 2

    params = {"w": np.zeros(2, np.float32), "b": np.float32(0.5)}
    problem = tj.Problem.from_pytree(loss, (DATA.x, DATA.y), params, prior=1.0, spread=0.2)
    assert problem.prior == 1.0
    np.testing.assert_allclose(problem.spread, 0.2)
    np.testing.assert_array_equal(problem.ravel(params), problem.initial)
    target = tj.Target(problem, 2, 0.1, 5.0)
    assert target.prior == 1.0
    run = tj.sample(target, 1, chains=4, records=1, acceptance=tj.Metropolis())
    assert len(np.unique(run.paths[:, 0, 0])) == 4
    spread = {"w": np.full(2, 0.1, np.float32), "b": np.float32(0.0)}
    shaped = tj.Problem.from_pytree(loss, (DATA.x, DATA.y), params, spread=spread)
    np.testing.assert_allclose(sorted(shaped.spread), [0.0, 0.1, 0.1])
