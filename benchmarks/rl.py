"""Policies by sampling against evolution strategies of evosax, at equal steps of the environment; ensembles that act.

    python benchmarks/rl.py --out paper/results/rl          # choose settings, then report; ten minutes on sixteen cores
    python benchmarks/rl.py --out paper/results/rl --draw   # tables and the picture of what was measured
    python benchmarks/rl.py --early-exit              # whether it pays to stop with the last episode

Every method has one grid of settings per environment, and its best one is chosen on runs that are not reported (another
seed of the sampler, other keys of the strategies). What is reported are five independent chains or strategies. Budgets
are steps of the environment: those of both models of every proposal, or of all members of all generations. Steps to
measure returns on the way are not counted for anyone. Choosing that was interrupted goes on when it is called again.
Needs gymnax and evosax.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SEEDS, CHOOSING = 5, 3
"""Chains, or strategies, that are reported, and those that settings are chosen on."""
REPORTED_SEED, CHOOSING_SEED, TRIED_SEED = 0, 1000, 99
EPISODES, FEW = 1000, 200
SECONDS, CHOOSING_SECONDS = 900.0, 150.0
"""That training may take in one job, reported or not."""
BATCH = 64
RECORDS, KEPT = 200, 40
"""Of a path, and those that are written down. Moves are tuned at records: choosing has as many."""
LONGEST, FEWER = 20, 10
"""Annealings that a path may take at most to use its budget, and how many times fewer records it has after two."""
BUDGET, EPOCHS, CLOCK = "budget", "epochs", "clock"
"""What ended a job: its budget, the most epochs that a path may take, or the clock."""


class Task(NamedTuple):
    """An environment, hidden layers of its policies, the budget, and grids of settings."""

    name: str
    hidden: tuple[int, ...]
    budget: float
    s: tuple[tuple[float, float], ...]
    anneal: tuple[int, ...]


TASKS = {
    task.name: task
    for task in (
        Task("CartPole-v1", (), 5e5, ((3.0, 15.0), (5.0, 50.0)), (60, 150)),
        Task("Acrobot-v1", (), 1e6, ((5.0, 50.0), (5.0, 200.0)), (200, 500)),
        Task("MountainCar-v0", (), 1e6, ((5.0, 100.0), (10.0, 400.0)), (300, 800)),
        Task("Pendulum-v1", (16,), 2e6, ((20.0, 500.0), (20.0, 3000.0)), (600, 1500)),
    )
}
SLOWEST = "Acrobot-v1"
OURS = {"tau": (4, 12), "sigma": (0.1, 0.3), "chunk": (4,)}
THEIRS = {"population": (16, 48), "episodes": (1, 4), "sigma": (0.1, 0.3), "step": (0.03, 0.1)}
KINDS = ("open_es", "pgpe")
PATHS = ("path", "path after open_es")
STARTED = {"population": 16, "episodes": 4, "sigma": 0.3, "step": 0.1}
SHARE = 0.4
"""Settings of the strategy that the second kind of path starts from, and its part of the budget."""
PUBLISHED = {
    "CartPole-v1": {"ARS": (500.0, 5e4), "PPO": (500.0, 1e5)},
    "Acrobot-v1": {"ARS": (-82.9, 5e5), "PPO": (-73.5, 1e6)},
    "MountainCar-v0": {"ARS": (-122.0, 5e5), "PPO": (-110.4, 1e6)},
    "Pendulum-v1": {"ARS": (-212.5, 2e6), "PPO": (-172.2, 1e5)},
}
"""Return, and steps of training, of one run each in the benchmark of RL Baselines3 Zoo."""


def jobs_for_choosing() -> list[dict[str, Any]]:
    """Every setting of every method and environment, in turns, those of the slowest environment first."""
    found: list[dict[str, Any]] = []
    for task in TASKS.values():
        for s, anneal, tau, sigma, chunk in itertools.product(task.s, task.anneal, *OURS.values()):
            how = {"s": s, "anneal": anneal, "tau": tau, "sigma": sigma, "chunk": chunk}
            found += [{"task": task.name, "method": method, "how": how} for method in PATHS]
        for kind, *values in itertools.product(KINDS, *THEIRS.values()):
            found.append({"task": task.name, "method": kind, "how": dict(zip(THEIRS, values, strict=True))})
    order = sorted(np.random.default_rng(0).permutation(len(found)), key=lambda k: found[k]["task"] != SLOWEST)
    shared = {"seed": CHOOSING_SEED, "count": CHOOSING, "is_reported": False}
    return [{**found[k], **shared} for k in order]


def conditions() -> dict[str, Any]:
    """All that choosing depends on, as JSON has it: rows of other conditions are not compared."""
    grid = {"tasks": TASKS, "ours": OURS, "theirs": THEIRS}
    numbers = {
        "seed": CHOOSING_SEED,
        "count": CHOOSING,
        "episodes": FEW,
        "tried": TRIED_SEED,
        "seconds": CHOOSING_SECONDS,
    }
    paths = {"batch": BATCH, "records": RECORDS, "longest": (LONGEST, FEWER), "started": STARTED, "share": SHARE}
    found: dict[str, Any] = json.loads(json.dumps({**grid, **numbers, **paths}))
    return found


def job_name(job: dict[str, Any]) -> str:
    """A setting of a method in an environment, in a word."""
    return f"{_name(job)}/{json.dumps(job['how'])}"


def work(job: dict[str, Any]) -> dict[str, Any]:
    """One job: its curve, and what came out within the budget."""
    began = time.perf_counter()
    found = (sampled if job["method"] in PATHS else evolved)(job)
    return {**job, **found, "seconds": time.perf_counter() - began}


def sampled(job: dict[str, Any]) -> dict[str, Any]:
    """Independent chains of one path each."""
    import trajens as tj
    from trajens import rl

    task, how = TASKS[job["task"]], job["how"]
    environment = rl.environment(task.name)
    problem = rl.problem(environment, rl.network(environment, task.hidden, "tanh"), max_batch=BATCH)
    loss, began = rl.episodes_of(problem), time.perf_counter()
    seconds = SECONDS if job["is_reported"] else CHOOSING_SECONDS
    first, before, initial = how["s"][0], np.zeros(job["count"], np.int64), None
    if job["method"] != "path":
        steps, means = strategies(task, "open_es", STARTED, job["seed"], job["count"], SHARE * task.budget, seconds)
        # As large as the budget allows, and not beyond.
        last = np.maximum((steps <= SHARE * task.budget).sum(1) - 1, 0)
        before = np.array([steps[k, last[k]] for k in range(job["count"])])
        models = np.stack([means[k, last[k]] for k in range(job["count"])])
        initial = np.repeat(models[:, None], how["tau"], axis=1)
        first = how["s"][1] / 4
    s = tj.schedule.exponential(first, how["s"][1], how["anneal"])
    target = tj.Target(problem, how["tau"], how["sigma"], s, prior=1.0)
    ended = [EPOCHS]

    def watch(progress: tj.Progress) -> None:
        if min(before + np.array(progress.steps_used)) > task.budget:
            ended[0] = BUDGET

    def is_over() -> bool:
        if ended[0] == EPOCHS and time.perf_counter() - began > seconds:
            ended[0] = CLOCK
        return ended[0] != EPOCHS

    run = tj.sample(
        target,
        2 * how["anneal"],
        chains=job["count"],
        burn_in=how["anneal"],
        seed=job["seed"],
        initial=initial,
        acceptance=tj.Penalty(how["chunk"]),
        tune=True,
        records=RECORDS,
        keep_paths=True,
        progress=watch,
        stop=is_over,
    )
    while ended[0] == EPOCHS and run.epochs < LONGEST * how["anneal"]:
        run = run.extend(2 * how["anneal"], RECORDS // FEWER, watch, is_over)
    records, history = run.records, run.history
    assert history is not None
    steps, curve = records["steps_used"] + before[:, None], loss.return_of(records["loss"])
    # The last record within the budget; the first, if all are beyond it.
    last = np.maximum((steps <= task.budget).sum(1) - 1, 0)
    within = [history[chain, last[chain]] for chain in range(job["count"])]
    count = EPISODES if job["is_reported"] else FEW
    scores = [
        {name: score._asdict() for name, score in rl.scores(environment, loss.policy, path, count, TRIED_SEED).items()}
        for path in within
    ]
    best = "vote" if "vote" in scores[0] else "mean"
    kept = _some(steps.shape[1])
    found = {
        "steps": steps[:, kept].tolist(),
        "curve": curve[:, kept].tolist(),
        "used": [int(steps[chain, last[chain]]) for chain in range(job["count"])],
        "ended": ended[0],
        "scores": scores,
        "value": float(np.mean([score[best]["mean"] for score in scores])),
        "s": records["s"][:, kept].tolist(),
        "batch": records["batch_size"][:, kept].tolist(),
        "acceptance": records["acceptance"][:, kept].tolist(),
        "measured": int(records["steps_measured"][:, -1].sum()),
    }
    if job["is_reported"]:
        found["together"] = together(environment, loss.policy, history[:, kept], best)
        found["robust"] = robust(task.name, loss.policy, within)
    return found


def together(environment: Any, policy: Any, history: np.ndarray, how: str) -> list[list[float]]:
    """Returns (chains, records) of ensembles that act together, in few episodes."""
    from trajens import rl

    return [
        [float(rl.joint_returns(environment, policy, path, how, FEW, TRIED_SEED)[0].mean()) for path in paths]
        for paths in history
    ]


def worlds(name: str) -> dict[str, Any]:
    """Environments of another physics than that of the training."""
    from trajens import rl

    usual = rl.environment(name)
    changed: dict[str, Any]
    noise: tuple[float, ...]
    if name == "CartPole-v1":
        changed = {f"length x {k:g}": rl.CartPole(length=0.5 * k) for k in (2.0, 4.0)}
        changed |= {f"gravity x {k:g}": rl.CartPole(gravity=9.8 * k) for k in (2.0, 3.0)}
        noise = (0.1, 0.2)
    elif name == "Pendulum-v1":
        changed = {f"length x {k:g}": rl.Gymnax(name, (("l", k),)) for k in (0.8, 1.2)}
        changed |= {f"gravity x {k:g}": rl.Gymnax(name, (("g", 10.0 * k),)) for k in (0.8, 1.2)}
        noise = (0.1, 0.3)
    elif name == "Acrobot-v1":
        changed = {f"length x {k:g}": rl.Gymnax(name, (("link_length_1", k),)) for k in (0.8, 1.2)}
        noise = (0.1, 0.3)
    else:
        changed = {f"gravity x {k:g}": rl.Gymnax(name, (("gravity", 0.0025 * k),)) for k in (0.9, 1.05)}
        noise = (0.002, 0.005)
    changed |= {f"noise {std:g}": rl.Noisy(usual, std) for std in noise}
    return {"as trained": usual, **changed}


def robust(name: str, policy: Any, paths: list[np.ndarray]) -> dict[str, list[dict[str, Any]]]:
    """Scores of every path in every world."""
    from trajens import rl

    return {
        world: [
            {how: score._asdict() for how, score in rl.scores(environment, policy, path, FEW, TRIED_SEED).items()}
            for path in paths
        ]
        for world, environment in worlds(name).items()
    }


def strategies(
    task: Task, kind: str, how: dict[str, Any], seed: int, count: int, budget: float, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Independent strategies of evosax: Adam, antithetic pairs, centred ranks, the same episodes for a generation.

    Steps (count, generations) so far, and means (count, generations, dim) of the strategies.
    """
    import jax
    import jax.numpy as jnp

    from trajens import rl

    environment = rl.environment(task.name)
    loss = rl.episodes_of(rl.problem(environment, rl.network(environment, task.hidden, "tanh")))
    keys = jax.random.split(jax.random.key(seed), count)
    some = partial(generations(), loss, kind, how["population"], how["episodes"])
    numbers = jnp.float32(how["sigma"]), jnp.float32(how["step"])
    state: Any = None
    used: list[np.ndarray] = []
    means: list[np.ndarray] = []
    began, done = time.perf_counter(), 0
    while not used or (np.sum(used, 0).min() < budget and time.perf_counter() - began < seconds):
        state, (steps, mean) = some(*numbers, keys, state, jnp.int32(done))
        used.extend(np.asarray(steps, np.int64))
        means.extend(np.asarray(mean))
        done += 8
    return np.cumsum(used, 0).T, np.swapaxes(np.array(means), 0, 1)


@cache
def generations() -> Any:
    """Eight generations of many strategies; compiled once for all step sizes."""
    import jax
    import jax.numpy as jnp
    import optax
    from evosax.algorithms import PGPE, Open_ES

    def made(kind: str, population: int, solution: Any, sigma: Any, step: Any) -> tuple[Any, Any]:
        adam = optax.adam(step)
        if kind == "pgpe":
            strategy = PGPE(population, solution, optimizer=adam)
            return strategy, strategy.default_params.replace(std_init=sigma)
        strategy = Open_ES(population, solution, optimizer=adam, std_schedule=lambda _: sigma)
        return strategy, strategy.default_params

    @partial(jax.jit, static_argnums=(0, 1, 2, 3))
    def some(
        loss: Any, kind: str, population: int, episodes: int, sigma: Any, step: Any, keys: Any, state: Any, number: Any
    ) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        solution = jnp.zeros(loss.policy.network.dim)
        strategy, params = made(kind, population, solution, sigma, step)
        if state is None:
            state = jax.vmap(lambda key: strategy.init(key, solution, params))(keys)
            state = jax.tree.map(jnp.asarray, state)

        def one(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
            key_ask, key_tell, key_episodes = jax.random.split(key, 3)
            members, state = strategy.ask(key_ask, state, params)
            pairs = members.reshape(-1, 2, len(solution))
            met = jnp.broadcast_to(jax.random.split(key_episodes, episodes), (len(pairs), episodes))
            losses, steps = loss.counted((), pairs, met, jnp.ones(len(pairs), bool))
            state, _ = strategy.tell(key_tell, members, losses.mean(2).reshape(-1), state, params)
            return state, steps.sum()

        def generation(state: Any, k: jax.Array) -> tuple[Any, tuple[jax.Array, jax.Array]]:
            now = jax.vmap(lambda key: jax.random.fold_in(key, k))(keys)
            state, steps = jax.vmap(one)(now, state)
            return state, (steps, jax.vmap(strategy.get_mean)(state))

        return jax.lax.scan(generation, state, number + jnp.arange(8))

    return some


def evolved(job: dict[str, Any]) -> dict[str, Any]:
    """Strategies within the budget; what is tried is the mean of each."""
    from trajens import rl

    task, count = TASKS[job["task"]], EPISODES if job["is_reported"] else FEW
    seconds = SECONDS if job["is_reported"] else CHOOSING_SECONDS
    environment = rl.environment(task.name)
    policy = rl.Policy.of(environment, rl.network(environment, task.hidden, "tanh"))
    steps, means = strategies(task, job["method"], job["how"], job["seed"], job["count"], task.budget, seconds)
    kept = _some(steps.shape[1])
    last = np.maximum((steps <= task.budget).sum(1) - 1, 0)
    curve = [rl.single_returns(environment, policy, mean[kept], 64, TRIED_SEED)[0].mean(1).tolist() for mean in means]
    within = np.stack([means[k, last[k]] for k in range(job["count"])])
    total = rl.single_returns(environment, policy, within, count, TRIED_SEED)[0]
    found = {
        "steps": steps[:, kept].tolist(),
        "curve": curve,
        "used": [int(steps[k, last[k]]) for k in range(job["count"])],
        "ended": BUDGET if steps[:, -1].min() >= task.budget else CLOCK,
        "scores": [{"single": {"mean": float(t.mean()), "stderr": float(t.std(ddof=1) / count**0.5)}} for t in total],
        "value": float(total.mean()),
    }
    if job["is_reported"]:
        found["robust"] = robust(task.name, policy, list(within[:, None]))
    return found


def _some(count: int) -> np.ndarray:
    """Numbers of records that are written down."""
    return np.unique(np.linspace(0, count - 1, KEPT).round().astype(int))


def early_exit() -> None:
    """Print the processor time of a loop that ends with the last episode, in units of one of all steps, both masked."""
    import jax
    import jax.numpy as jnp

    from trajens import rl

    pole = rl.CartPole()
    network = rl.network(pole)
    policy = rl.Policy.of(pole, network)

    def of_all_steps(act: Any, key: jax.Array) -> jax.Array:
        key_reset, key_steps = jax.random.split(key)
        observation, state = pole.reset(key_reset)

        def step(carried: Any, t: jax.Array) -> tuple[Any, None]:
            before, is_over, total = carried
            now = pole.step(jax.random.fold_in(key_steps, t), before[1], act(before[0]))
            kept = jax.tree.map(lambda old, new: jnp.where(is_over, old, new), before, now[:2])
            return (kept, is_over | now[3], total + jnp.where(is_over, 0.0, now[2])), None

        begin = (observation, state), jnp.bool_(False), jnp.float32(0.0)
        return jax.lax.scan(step, begin, jnp.arange(pole.max_steps))[0][2]

    ways = (lambda act, key: rl.episode(pole, act, key).total), of_all_steps
    for pairs in (2, 8, 32, 128):
        models = np.stack([network.init(seed) for seed in range(2 * pairs)])
        keys = jax.random.split(jax.random.key(0), 8)
        spent, totals = [], []
        for way in ways:
            one = lambda theta, key, way=way: way(lambda seen: policy.alone(theta, seen), key)  # noqa: E731
            compiled = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
            totals.append(np.asarray(compiled(models, keys)))
            times = []
            for _ in range(20):
                began = time.process_time()
                compiled(models, keys).block_until_ready()
                times.append(time.process_time() - began)
            spent.append(min(times))
        assert (totals[0] == totals[1]).mean() > 0.99
        longest, mean = totals[0].max(), totals[0].mean()
        print(f"{16 * pairs} episodes, longest {longest:.0f}, mean {mean:.0f}: {spent[0] / spent[1]:.2f}", flush=True)


def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best setting of every method and environment, as a job to report; none that was judged too early or late."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["task"], row["method"]
        # The clock ended it, or not one record is within the budget.
        if row["ended"] == CLOCK or max(row["used"]) > TASKS[row["task"]].budget:
            continue
        if key not in best or row["value"] > best[key]["value"]:
            best[key] = row
    report = {"seed": REPORTED_SEED, "count": SEEDS, "is_reported": True}
    return [{"task": r["task"], "method": r["method"], "how": r["how"], **report} for r in best.values()]


def carried_out(
    jobs: list[dict[str, Any]], workers: int, minutes: float, keep: Callable[[dict[str, Any]], None]
) -> None:
    """Tell `keep` of the result of every job that was done in time."""
    done, until = 0, time.perf_counter() + 60 * minutes
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    futures = [pool.submit(work, job) for job in jobs]
    try:
        for future in as_completed(futures, timeout=max(until - time.perf_counter(), 1.0)):
            error = future.exception()
            if error is not None:
                print(f"failed: {error!r}", flush=True)
                continue
            row, done = future.result(), done + 1
            keep(row)
            print(
                f"{done}/{len(jobs)} {row['task']} {row['method']} {row['how']} {row['value']:.1f} "
                f"({row['seconds']:.0f} s, {row['ended']})",
                flush=True,
            )
    except TimeoutError:
        print(f"{len(jobs) - done} jobs were not done in time", flush=True)
    for process in list((pool._processes or {}).values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)


def choose(file: Path, some: int | None, workers: int, minutes: float) -> list[dict[str, Any]]:
    """Rows of all settings that were tried, those of `file` first; it is written after every job."""
    rows = []
    if file.exists():
        found = json.loads(file.read_text())
        if not isinstance(found, dict) or found.get("conditions") != conditions():
            sys.exit(
                f"{file} must be of this grid, clock and budget, and is of another; give another --out, or remove it."
            )
        rows = found["rows"]
    done = {job_name(row) for row in rows}
    kept = ("task", "method", "how", "seed", "count", "value", "used", "ended", "seconds")

    def keep(row: dict[str, Any]) -> None:
        rows.append({name: row[name] for name in kept})
        written(file, {"conditions": conditions(), "rows": rows})

    carried_out([job for job in jobs_for_choosing()[:some] if job_name(job) not in done], workers, minutes, keep)
    return rows


def report(file: Path, jobs: list[dict[str, Any]], workers: int, minutes: float, again: list[str] | None) -> None:
    """Carry out `jobs`, or those named in `again` that then replace rows of `file`; it is written after every job."""
    rows = [] if again is None else json.loads(file.read_text())
    rows = [row for row in rows if _name(row) not in (again or ())]

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        written(file, sorted(rows, key=_name))

    carried_out([job for job in jobs if again is None or _name(job) in again], workers, minutes, keep)


def main() -> None:
    """Choose, report and write down; or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("paper/results/rl"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=20.0, help="for choosing settings")
    parser.add_argument("--report-minutes", type=float, default=10.0, help="0: choose only")
    parser.add_argument("--smoke", action="store_true", help="try all imports and end")
    parser.add_argument("--some", type=int, help="choose among so many jobs only, for trying this program")
    parser.add_argument(
        "--again", nargs="*", help="report these again, as Acrobot-v1/path, with settings chosen before"
    )
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--early-exit", action="store_true")
    given = parser.parse_args()
    if given.early_exit:
        early_exit()
        return
    if given.draw:
        from rl_figure import draw, table

        rows = json.loads((given.out / "report.json").read_text())
        budgets = {name: task.budget for name, task in TASKS.items()}
        print(table(rows, PUBLISHED, budgets))
        draw(rows, PUBLISHED, budgets, Path("docs/figures/rl.png"))
        return
    # One core a process: there are many.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["OMP_NUM_THREADS"] = "1"
    # What one process has compiled, others need not.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="trajens-rl-"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.smoke:
        import optax  # noqa: F401
        from evosax.algorithms import PGPE, Open_ES  # noqa: F401

        from trajens import rl

        print([rl.environment(name).returns for name in TASKS])
        return
    choosing = given.out / "choosing.json"
    rows = choose(choosing, given.some if given.again is None else 0, given.workers, given.minutes)
    print(f"{len(rows)} of {len(jobs_for_choosing())} settings were tried", flush=True)
    if given.report_minutes:
        report(given.out / "report.json", chosen(rows), given.workers, given.report_minutes, given.again)


def _name(row: dict[str, Any]) -> str:
    return f"{row['task']}/{row['method']}"


def written(file: Path, content: Any) -> None:
    """As JSON, with few digits."""
    from trajens.files import write_atomically

    rounded = json.loads(json.dumps(content), parse_float=lambda text: float(f"{float(text):.6g}"))
    write_atomically(file, (json.dumps(rounded) + "\n").encode())


if __name__ == "__main__":
    main()
