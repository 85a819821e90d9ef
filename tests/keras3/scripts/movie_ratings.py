"""Predict ratings from embeddings of users and movies, whose identifiers become numbers by lookups."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(71)

WIDTH = 6

random = np.random.RandomState(0)
users = random.choice([f"user-{number}" for number in range(30)], 300)
movies = random.randint(1000, 1050, 300)
ratings = np.array([len(user) % 2 + movie % 4 for user, movie in zip(users, movies, strict=True)], "float32") / 4.0


class Recommender(keras.Model):
    def __init__(self, users, movies):
        super().__init__()
        regularizer = keras.regularizers.L2(1e-6)
        self.users = keras.layers.Embedding(users, WIDTH, embeddings_initializer="he_normal")
        self.user_bias = keras.layers.Embedding(users, 1, embeddings_regularizer=regularizer)
        self.movies = keras.layers.Embedding(movies, WIDTH, embeddings_initializer="he_normal")
        self.movie_bias = keras.layers.Embedding(movies, 1)

    def call(self, inputs):
        user, movie = inputs[:, 0], inputs[:, 1]
        similarity = keras.ops.sum(self.users(user) * self.movies(movie), axis=1, keepdims=True)
        return keras.ops.sigmoid(similarity + self.user_bias(user) + self.movie_bias(movie))


user_lookup = keras.layers.StringLookup(vocabulary=sorted(set(users)))
movie_lookup = keras.layers.IntegerLookup(vocabulary=sorted(set(movies.tolist())))
x = np.stack([user_lookup(users), movie_lookup(movies)], axis=1)
x_train, x_validation, y_train, y_validation = x[:250], x[250:], ratings[:250], ratings[250:]

with strategy.scope():
    model = Recommender(user_lookup.vocabulary_size(), movie_lookup.vocabulary_size())
    model.build((None, 2))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01), loss=keras.losses.MeanSquaredError(), metrics=["root_mean_squared_error"]
    )

history = model.fit(x_train, y_train, batch_size=32, epochs=2, validation_data=(x_validation, y_validation), verbose=2)
[user] = user_lookup(["user-7"]).numpy()
every_movie = np.stack([np.full(50, user), np.arange(50)], axis=1)
result_best = model.predict(every_movie, verbose=0)[:, 0].argsort()[::-1][:5]
