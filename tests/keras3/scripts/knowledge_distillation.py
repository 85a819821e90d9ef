"""Distil a trained teacher into a small student: `compute_loss` adds the divergence of their outputs."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(17)


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.teacher = teacher

    def compile(self, optimizer, metrics, student_loss, distillation_loss, alpha=0.1, temperature=3):
        super().compile(optimizer=optimizer, metrics=metrics)
        self.student_loss = student_loss
        self.distillation_loss = distillation_loss
        self.alpha = alpha
        self.temperature = temperature

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, allow_empty=False):
        teacher_pred = self.teacher(x, training=False)
        student_loss = self.student_loss(y, y_pred)
        distillation_loss = self.distillation_loss(
            keras.ops.softmax(teacher_pred / self.temperature, axis=1),
            keras.ops.softmax(y_pred / self.temperature, axis=1),
        ) * (self.temperature**2)
        return self.alpha * student_loss + (1 - self.alpha) * distillation_loss

    def call(self, x):
        return self.student(x)


def make_classifier(width):
    return keras.Sequential([keras.Input((10,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(3)])


random = np.random.RandomState(0)
x = random.normal(size=(240, 10)).astype("float32")
y = np.argmax(x[:, :3], axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(48)

with strategy.scope():
    teacher = make_classifier(32)
    teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
teacher_history = teacher.fit(dataset, epochs=2, verbose=2)

with strategy.scope():
    student = make_classifier(4)
    distiller = Distiller(student, teacher)
    distiller.compile(
        optimizer=keras.optimizers.Adam(0.01),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
        student_loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        distillation_loss=keras.losses.KLDivergence(),
    )
history = distiller.fit(dataset, epochs=3, verbose=2)
scores = distiller.evaluate(dataset, verbose=0)
