"""Optuna: each worker takes trials from one study, whose journal is a file on the shared volume."""

import csv
import json
import os
from pathlib import Path

import keras
import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

SPECIES = ("Adelie", "Chinstrap", "Gentoo")
COLUMNS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
TRIALS = int(os.environ.get("TRIALS", "8"))

job = json.loads(os.environ["TFDIST_JOB"])
replica = f"{job['role']}-{job['index']}"


def read(path):
    with Path(path).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "NA" not in (row[name] for name in COLUMNS)]
    features = np.array([[float(row[name]) for name in COLUMNS] for row in rows], "float32")
    return features, np.array([SPECIES.index(row["species"]) for row in rows])


features, labels = read("/examples/penguins/train.csv")
test = read("/examples/penguins/test.csv")


def objective(trial):
    trial.set_user_attr("replica", replica)
    rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)
    units = trial.suggest_int("units", 8, 64, step=8)
    normalization = keras.layers.Normalization()
    normalization.adapt(features)
    layers = [keras.Input((4,)), normalization, keras.layers.Dense(units, "relu"), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    model.fit(features, labels, epochs=10, batch_size=16, verbose=0)
    accuracy = model.evaluate(*test, verbose=0, return_dict=True)["accuracy"]
    print(f"{replica} trial {trial.number}: {accuracy:.4f}", flush=True)
    return accuracy


print("starts as", replica, flush=True)
study = optuna.create_study(
    study_name=job["name"],
    storage=optuna.storages.JournalStorage(JournalFileBackend(f"/search/{job['name']}-{job['uid']}.log")),
    sampler=optuna.samplers.TPESampler(seed=job["index"]),
    direction="maximize",
    load_if_exists=True,
)
for trial in study.get_trials(states=(TrialState.RUNNING,)):
    if trial.user_attrs.get("replica") == replica:  # the trial in which this replica failed is taken again
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)
study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(TRIALS, states=(TrialState.COMPLETE,))])
print(f"best: {study.best_value:.4f} with {study.best_params}", flush=True)
