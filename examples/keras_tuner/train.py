"""KerasTuner's distributed mode: the chief runs the oracle, and each worker trains the trials that it gets from it."""

import csv
import json
import os
from pathlib import Path

import keras
import keras_tuner
import numpy as np

import tfdist_trainer

SPECIES = ("Adelie", "Chinstrap", "Gentoo")
COLUMNS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")

job = json.loads(os.environ["TFDIST_JOB"])
host, port = job["addresses"]["chief"][0].rsplit(":", 1)
os.environ["KERASTUNER_TUNER_ID"] = f"{job['role']}-{job['index']}"  # a worker that restarts gets its trial again
os.environ["KERASTUNER_ORACLE_IP"] = "0.0.0.0" if job["role"] == "chief" else host
os.environ["KERASTUNER_ORACLE_PORT"] = port


def read(path):
    with Path(path).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "NA" not in (row[name] for name in COLUMNS)]
    features = np.array([[float(row[name]) for name in COLUMNS] for row in rows], "float32")
    return features, np.array([SPECIES.index(row["species"]) for row in rows])


features, labels = read("/examples/penguins/train.csv")


def build(parameters):
    normalization = keras.layers.Normalization()
    normalization.adapt(features)
    units = parameters.Int("units", 8, 64, step=8)
    layers = [keras.Input((4,)), normalization, keras.layers.Dense(units, "relu"), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    rate = parameters.Float("learning_rate", 1e-4, 1e-1, sampling="log")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


print("starts as", os.environ["KERASTUNER_TUNER_ID"], flush=True)
tuner = keras_tuner.RandomSearch(
    build,
    objective="val_accuracy",
    max_trials=int(os.environ.get("TRIALS", "8")),
    seed=1,
    directory="/search",
    project_name=f"{job['name']}-{job['uid']}",
)
test = read("/examples/penguins/test.csv")
# A chief that prints its trials does not survive a restart: KerasTuner saves a trial before the time of its start.
verbose = 0 if job["role"] == "chief" else 2
tuner.search(features, labels, validation_data=test, epochs=10, batch_size=16, verbose=verbose)
if job["role"] == "chief":  # its search returns when the workers have ended their trials
    [best] = tuner.oracle.get_best_trials(1)
    tfdist_trainer.report(metrics={"val_accuracy": best.score})
    print(f"best of {len(tuner.oracle.trials)} trials: {best.score:.4f} with {best.hyperparameters.values}", flush=True)
