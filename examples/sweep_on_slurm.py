"""A sweep over tau and s as jobs of SLURM: `python examples/sweep_on_slurm.py sweeps/perceptron slurm`.

With `local` in place of `slurm` the runs are done here. Called again, it goes on with what is not complete; a job that
meets its time limit saves itself and is queued again. `trajens sweep status DIR` says how far it is.
"""

import sys

import trajens as tj

PLAN = {
    "options": {"problem": "perceptron", "sigma": 0.1, "prior": "1", "epochs": 20_000, "chains": 12},
    # Chains of all s are one run, and every tau is a job.
    "grid": {"tau": [2, 4, 8], "s": [[5.0, 20.0, 80.0]]},
}
JOB = {"partition": "main", "cpus_per_task": 4, "mem_gb": 4}


def main(out="sweeps/perceptron", engine="slurm", plan=PLAN):
    """Submit what is left, wait for it, and print a row for every tau and s."""
    how = {"minutes": 30, "slurm": JOB} if engine == "slurm" else {}
    swept = tj.sweep(plan, out, engine=engine, **how)
    for name, sentence in swept.failed.items():
        print(f"{name} failed: {sentence}")
    for row in swept.table():
        if row["state"] == "complete":
            print(f"tau = {row['tau']}, s = {row['s']:g}: loss {row['loss']:.4f} +- {row['loss_stderr']:.4f}")
    return swept


if __name__ == "__main__":
    main(*sys.argv[1:3])
