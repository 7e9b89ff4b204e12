"""Learn a table of your own and predict rows that were held out: `python examples/own_table.py FILE.csv LABEL`.

Without a file it makes one: flowers of three species, with a column of numbers, one of texts, and missing values.
"""

import sys

import numpy as np

import trajens as tj


def make(file, rows=400):
    """Write a small table."""
    rng = np.random.default_rng(0)
    species = rng.integers(0, 3, rows)
    length = 3 + species + 0.5 * rng.standard_normal(rows)
    colour = np.where(rng.random(rows) < 0.8, species, rng.integers(0, 3, rows))
    with open(file, "w", encoding="utf-8") as out:
        out.write("length,colour,species\n")
        for k in range(rows):
            given = "" if k % 40 == 0 else f"{length[k]:.2f}"
            out.write(f"{given},{('white', 'red', 'blue')[colour[k]]},{('daisy', 'rose', 'iris')[species[k]]}\n")


def main(file="flowers.csv", label="species", budget=2e6):
    """Read, train, and say how good and how sure the ensemble is."""
    reading, data = tj.datasets.learn(file, label)
    held, seen = np.split(np.random.default_rng(0).permutation(len(data.y)), [len(data.y) // 4])
    classes = int(data.y.max()) + 1
    model = tj.models.mlp((data.x.shape[1], 16, classes), "tanh")
    run = tj.train(model.problem(data.x[seen], data.y[seen]), tau=8, budget=budget)
    ensemble = tj.Ensemble.from_run(run)
    scores = ensemble.evaluate(data.x[held], data.y[held])
    print(f"held out: accuracy {scores['mean_accuracy']:.3f}, NLL {scores['nll']:.3f}, ECE {scores['ece']:.3f}")
    for probabilities, true in zip(ensemble.predict_proba(data.x[held[:5]]), data.y[held[:5]], strict=True):
        print("probabilities", probabilities.round(2), "true class", reading.label.classes[true])
    return scores


if __name__ == "__main__":
    if len(sys.argv) < 3:
        make("flowers.csv")
    main(*sys.argv[1:3])
