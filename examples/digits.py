"""Handwritten digits learnt by data parallel gradient descent: every rank has its share of the samples.

    shmrun -n 4 examples/digits.py        (needs scikit-learn, which ships the images)

The gradient over all samples is the sum of the ranks' gradients over theirs. So every rank takes the same step, holds
the same weights without ever being sent any, and the accuracy is that of one process.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

import shmcoll

CLASSES = 10
HELD_BACK = 297  # images to test with


def images(kind):
    """("train" or "test"): pixels with a one for the bias in float64, (samples, 65), and labels in one-hot rows."""
    pixels, digits = load_digits(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(len(digits))
    chosen = shuffled[HELD_BACK:] if kind == "train" else shuffled[:HELD_BACK]
    ones = np.ones((len(chosen), 1))
    return np.hstack([pixels[chosen] / 16, ones]), np.eye(CLASSES)[digits[chosen]]


def probabilities(x, weights):
    """Softmax of the scores, a row a sample."""
    scores = x @ weights
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train(comm, x, labels, steps, rate=2.0):
    """The weights after so many steps down the mean loss over all ranks' samples; x and labels are this rank's."""
    samples = comm.all_reduce(np.array(len(x)))
    weights = np.zeros((x.shape[1], CLASSES))
    for _ in range(steps):
        gradient = x.T @ (probabilities(x, weights) - labels)
        comm.all_reduce(gradient, out=gradient)
        weights -= rate / samples * gradient
    return weights


def accuracy(comm, x, labels, weights):
    """Share of the samples of all ranks that are recognised."""
    right = probabilities(x, weights).argmax(axis=1) == labels.argmax(axis=1)
    recognised, samples = comm.all_reduce(np.array([right.sum(), right.size]))
    return recognised / samples


def share(comm, *arrays):
    """Every n-th row from this rank's number on."""
    return [array[comm.rank :: comm.size] for array in arrays]


def main(steps=300):
    comm = shmcoll.init()
    weights = train(comm, *share(comm, *images("train")), steps)
    recognised = accuracy(comm, *share(comm, *images("test")), weights)
    if comm.rank == 0:
        print(f"{comm.size} ranks, {steps} steps: {recognised:.2%} of {HELD_BACK} unseen digits recognised")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
