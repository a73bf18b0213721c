"""Learn handwritten digits by data-parallel gradient descent: each rank has a share of the samples.

    shmrun -n 4 examples/digits.py        (needs scikit-learn, which ships the images)

The gradient over all samples is the sum of the gradients over each rank's samples. So all ranks take the same step and
have the same weights, although no weights are sent. The accuracy is that of one process.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

import shmcoll

CLASSES = 10
HELD_BACK = 297  # images to test with


def images(kind):
    """Return the images of `kind` ("train" or "test") and their labels.

    The pixels are (samples, 65) float64, with a last column of ones for the bias. The labels are one-hot rows.
    """
    pixels, digits = load_digits(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(len(digits))
    chosen = shuffled[HELD_BACK:] if kind == "train" else shuffled[:HELD_BACK]
    ones = np.ones((len(chosen), 1))
    return np.hstack([pixels[chosen] / 16, ones]), np.eye(CLASSES)[digits[chosen]]


def probabilities(x, weights):
    """Return the softmax of the scores, one row per sample."""
    scores = x @ weights
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train(comm, x, labels, steps, rate=2.0):
    """Return the weights after `steps` steps down the mean loss of all ranks. x and labels are this rank's samples."""
    samples = comm.all_reduce(np.array(len(x)))
    weights = np.zeros((x.shape[1], CLASSES))
    for _ in range(steps):
        gradient = x.T @ (probabilities(x, weights) - labels)
        comm.all_reduce(gradient, out=gradient)
        weights -= rate / samples * gradient
    return weights


def accuracy(comm, x, labels, weights):
    """Return which fraction of the samples of all ranks is recognised."""
    right = probabilities(x, weights).argmax(axis=1) == labels.argmax(axis=1)
    recognised, samples = comm.all_reduce(np.array([right.sum(), right.size]))
    return recognised / samples


def share(comm, *arrays):
    """Return every n-th row of each array, beginning with the number of this rank."""
    return [array[comm.rank :: comm.size] for array in arrays]


def main(steps=300):
    comm = shmcoll.init()
    weights = train(comm, *share(comm, *images("train")), steps)
    recognised = accuracy(comm, *share(comm, *images("test")), weights)
    if comm.rank == 0:
        print(f"{comm.size} ranks, {steps} steps: {recognised:.2%} of {HELD_BACK} unseen digits recognised")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
